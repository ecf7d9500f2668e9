/*-------------------------------------------------------------------------
 *
 * text_function.c
 *	  Lengths of strings, and what they begin with or have in the middle; the
 *	  same of char(n) as text.
 *
 * None of this raises an error of its own. Characters are counted in UTF-8 and in encodings of one byte; in others,
 * only ASCII is for us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "planner/arithmetic.h"
#include "vector/expression/kernel.h"

typedef struct TextExpr
{
	VectorExpr	expr;
	VectorExpr *operand;
	bool		one_byte;		/* the encoding has no longer characters */
	bool		utf8;
	bool		padded;			/* the operand is char(n), whose blanks at the
								 * end do not count */
	bool		bytes;			/* octet_length() */
	bool		substring;		/* or a length */
	int32		before;			/* characters before it */
	int32		length;			/* their maximum number */
} TextExpr;

/* Eight bytes of ASCII have none of these bits. */
#define HIGH_BITS UINT64CONST(0x8080808080808080)

static bool
is_leading(char c)
{
	return (c & 0xC0) != 0x80;
}

/* Are the next eight bytes ASCII? */
static bool
are_ascii(const char *data)
{
	uint64		word;

	memcpy(&word, data, sizeof(word));
	return (word & HIGH_BITS) == 0;
}

/* The characters of a string, or -1 if PostgreSQL has to count them. */
static int
count_characters(const TextExpr *text, const char *data, int len)
{
	int			n = 0;

	if (text->one_byte)
		return len;
	if (text->utf8)
	{
		for (int i = 0; i < len; i++)
			n += is_leading(data[i]);
		return n;
	}
	for (int i = 0; i < len; i++)
	{
		if (IS_HIGHBIT_SET(data[i]))
			return -1;
	}
	return len;
}

/* ---- compilation ---- */

/* A constant integer that is not NULL. */
static bool
constant_int4(Expr *expr, int32 *value)
{
	Const	   *constant = (Const *) expr;

	if (!IsA(expr, Const) || constant->constisnull || constant->consttype != INT4OID)
		return false;
	*value = DatumGetInt32(constant->constvalue);
	return true;
}

/* Which part of a string it is; false if PostgreSQL has to tell, or raises an error. */
static bool
find_part(FuncExpr *func, TextExpr *text)
{
	int32		from = 1;

	text->length = PG_INT32_MAX;
	switch (func->funcid)
	{
		case F_LEFT:
			if (!constant_int4(lsecond(func->args), &text->length))
				return false;
			break;
		case F_SUBSTR_TEXT_INT4_INT4:
		case F_SUBSTRING_TEXT_INT4_INT4:
			if (!constant_int4(lthird(func->args), &text->length))
				return false;
			/* FALLTHROUGH */
		case F_SUBSTR_TEXT_INT4:
		case F_SUBSTRING_TEXT_INT4:
			if (!constant_int4(lsecond(func->args), &from))
				return false;
			break;
	}
	/* what is counted from before the first character, or from the end */
	if (from < 1 || text->length < 0)
		return false;
	text->before = from - 1;
	text->substring = true;
	return true;
}

/* What is to be found of which string, which is returned; NULL if the expression is another. */
static Expr *
find_text(Expr *expr, TextExpr *text)
{
	FuncExpr   *func = (FuncExpr *) expr;

	memset(text, 0, sizeof(TextExpr));
	if (!IsA(expr, FuncExpr))
		return NULL;
	switch (func->funcid)
	{
		case F_LENGTH_TEXT:
		case F_CHAR_LENGTH_TEXT:
		case F_CHARACTER_LENGTH_TEXT:
			break;
		case F_OCTET_LENGTH_TEXT:
			text->bytes = true;
			break;
		case F_LEFT:
		case F_SUBSTR_TEXT_INT4_INT4:
		case F_SUBSTRING_TEXT_INT4_INT4:
		case F_SUBSTR_TEXT_INT4:
		case F_SUBSTRING_TEXT_INT4:
			if (!find_part(func, text))
				return NULL;
			break;
		case F_TEXT_BPCHAR:
			/* all of it */
			text->padded = text->substring = true;
			text->length = PG_INT32_MAX;
			return linitial(func->args);
		default:
			return NULL;
	}
	func = (FuncExpr *) planner_strip_relabel(linitial(func->args));
	if (IsA(func, FuncExpr) && func->funcid == F_TEXT_BPCHAR)
	{
		text->padded = true;
		return linitial(func->args);
	}
	return (Expr *) func;
}

/* The string that an expression is a part or a length of, or NULL. */
Expr *
vector_expr_text(Expr *expr)
{
	TextExpr	text;

	return find_text(planner_strip_relabel(expr), &text);
}

static VectorExpr *
compile(Expr *expr, Batch *batch, CompileOperand operand)
{
	TextExpr	text;
	TextExpr   *result;
	Expr	   *string = find_text(expr, &text);
	VectorExpr *arg = string == NULL ? NULL : operand(string, batch);

	if (arg == NULL)
		return NULL;
	result = vector_expr_create(sizeof(TextExpr), &text_kernel);
	result->operand = arg;
	result->one_byte = pg_database_encoding_max_length() == 1;
	result->utf8 = GetDatabaseEncoding() == PG_UTF8;
	result->padded = text.padded;
	result->bytes = text.bytes;
	result->substring = text.substring;
	result->before = text.before;
	result->length = text.length;
	return &result->expr;
}

/* ---- evaluation ---- */

/* Where the n-th character from `data` on begins, or the end. */
static const char *
skip_characters(const TextExpr *text, const char *data, const char *end, int32 n)
{
	if (!text->utf8)
		return n < end - data ? data + n : end;
	/* mostly a byte is a character */
	while (n >= sizeof(uint64) && end - data >= sizeof(uint64) && are_ascii(data))
	{
		data += sizeof(uint64);
		n -= sizeof(uint64);
	}
	while (data < end && n > 0)
	{
		do
			data++;
		while (data < end && !is_leading(*data));
		n--;
	}
	return data;
}

/* The part of a string, in the current context. */
static Datum
part_of(const TextExpr *text, const char *data, int len)
{
	const char *end = data + len;
	const char *begin = skip_characters(text, data, end, text->before);
	int			bytes = skip_characters(text, begin, end, text->length) - begin;
	char	   *result;

	if (bytes + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		result = palloc(bytes + VARHDRSZ_SHORT);
		SET_VARSIZE_SHORT(result, bytes + VARHDRSZ_SHORT);
	}
	else
	{
		result = palloc(bytes + VARHDRSZ);
		SET_VARSIZE(result, bytes + VARHDRSZ);
	}
	memcpy(VARDATA_ANY(result), begin, bytes);
	return PointerGetDatum(result);
}

/* The result for a string; false if PostgreSQL has to find it. */
static bool
text_datum(const TextExpr *text, Datum value, Datum *result)
{
	struct varlena *packed;
	const char *data;
	int			len;
	bool		done = true;

	if (!text->padded && (text->bytes || (!text->substring && text->one_byte)))
	{
		*result = Int32GetDatum(toast_raw_datum_size(value) - VARHDRSZ);
		return true;
	}
	packed = PG_DETOAST_DATUM_PACKED(value);
	data = VARDATA_ANY(packed);
	len = VARSIZE_ANY_EXHDR(packed);
	if (text->padded)
		len = bpchartruelen((char *) data, len);
	if (!text->substring)
	{
		int			n = text->bytes ? len : count_characters(text, data, len);

		*result = Int32GetDatum(n);
		done = n >= 0;
	}
	else if (!text->utf8 && count_characters(text, data, len) < 0)
		done = false;
	else
		*result = part_of(text, data, len);
	if ((Pointer) packed != DatumGetPointer(value))
		pfree(packed);
	return done;
}

static bool
eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	TextExpr   *text = (TextExpr *) expr;
	Values		arg;

	if (!text->operand->kernel->eval(text->operand, batch, rows, n, &arg))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (arg.has_nulls && arg.nulls[i])
			expr->values[i] = (Datum) 0;
		else if (!text_datum(text, arg.values[i], &expr->values[i]))
			return false;
	}
	result->values = expr->values;
	result->nulls = arg.nulls;
	result->has_nulls = arg.has_nulls;
	return true;
}

const ExprKernel text_kernel = {
	.compile = compile,
	.eval = eval,
};
