/*-------------------------------------------------------------------------
 *
 * by_value.c
 *	  Expressions of one column that remember their results by its values.
 *
 * An immutable expression of a string column and constants has one result for
 * each value of the column. Where the source has the column as codes of a
 * dictionary, the result of each code is remembered. Where it does not, and for
 * codes of the next dictionary, results are remembered by the bytes of the
 * string, if the expression has a regular expression or a function that is not
 * PostgreSQL's own, and enough of the rows repeat a value: looking a string up
 * takes as long as most of PostgreSQL's functions do.
 *
 * Nothing is evaluated ahead: a value is evaluated for the first row that has
 * it, among those for which the caller wants the expression, in their order.
 * So an error is raised only if a row would have raised it.
 *
 * Memory: results of codes are forgotten with the dictionary, all results when
 * they exceed a share of hash_mem. Both happen when the expression is about to
 * be evaluated, since results are valid until then. Long results, and those
 * that find no room, are not remembered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "vector/expression/by_value.h"
#include "vector/expression/kernel.h"

/* The share of hash_mem that the results of one expression may take, and their limit whatever that is. */
#define MEMORY_SHARE 4
#define MOST_MEMORY ((Size) 256 * 1024 * 1024)

/* Strings, and results, that are longer are not remembered. */
#define MOST_BYTES 8192

/* Number of slots to begin with; a power of two. */
#define FIRST_SLOTS 1024

/*
 * Every WINDOW rows that are looked up by their bytes, check whether that pays,
 * and the first time after TRIAL rows already. If it does not, evaluate the next
 * rows one by one: PAUSE at first, and twice as many each time.
 */
#define TRIAL 1024
#define WINDOW 8192
#define PAUSE (32 * WINDOW)
#define LONGEST_PAUSE (1024 * WINDOW)

/* The share of rows that must repeat a value for that, and in the trial. */
#define REPEATED_SHARE 0.0625
#define TRIAL_SHARE 0.015625

/* A string and its result. */
typedef struct Entry
{
	Datum		value;
	bool		isnull;
	int			len;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Entry;

typedef struct Slot
{
	uint32		hash;
	Entry	   *entry;			/* NULL: free */
} Slot;

/* What is known of a code. */
enum
{
	CODE_UNKNOWN,
	CODE_SOUGHT,				/* it is among the rows to be evaluated */
	CODE_VALUE,
	CODE_NULL
};

struct ByValue
{
	int			column;
	bool		looks_up;		/* strings are looked up by their bytes */
	int16		len;			/* of its results */
	bool		byval;
	MemoryContext parent;
	MemoryContext context;		/* of entries, slots, and their results; NULL:
								 * there is none yet */
	MemoryContext code_context; /* of results of codes that have no entry */
	Size		limit;
	Size		used;			/* bytes of entries */
	Size		code_used;		/* bytes of results of codes */

	/* by codes */
	uint64		serial;			/* of the dictionary; 0: of none */
	bool		after_first;	/* there was another dictionary before */
	int			room;			/* number of codes that have room */
	uint8	   *known;			/* of each code */
	Datum	   *results;

	/* by bytes */
	uint32		nslots;			/* a power of two, or 0 */
	uint32		nentries;
	Slot	   *slots;
	int64		seen;			/* rows looked up since it was decided */
	int64		found;			/* those of them that had an entry */
	int64		decisions;		/* how often that was found to pay */
	int64		pause;			/* rows of the next pause */
	int64		paused;			/* further rows that are not looked up */
};

/* ---- which expressions ---- */

static bool
is_string(const Batch *batch, int column)
{
	Oid			type = batch->columns[column].type;

	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID;
}

/* May the result of an expression be another one for the same value, or is that not known? */
static bool
is_other(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		case T_CoerceViaIO:

			/*
			 * what other types look like depends on settings, although their
			 * functions are marked as immutable
			 */
			switch (getBaseType(exprType((Node *) ((CoerceViaIO *) node)->arg)))
			{
				case TEXTOID:
				case VARCHAROID:
				case BPCHAROID:
					break;
				default:
					return true;
			}
			break;
		case T_List:
		case T_Var:
		case T_Const:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, is_other, context);
}

/* Does a result follow from the values of the columns and constants alone? */
bool
expr_follows_from_value(Expr *expr)
{
	return !is_other((Node *) expr, NULL) && !contain_mutable_functions((Node *) expr);
}

/* Does a function take much longer than to look a string up? */
static bool
is_costly_function(Oid funcid, void *context)
{
	switch (funcid)
	{
		case F_TEXTREGEXEQ:
		case F_TEXTREGEXNE:
		case F_TEXTICREGEXEQ:
		case F_TEXTICREGEXNE:
		case F_BPCHARREGEXEQ:
		case F_BPCHARREGEXNE:
		case F_BPCHARICREGEXEQ:
		case F_BPCHARICREGEXNE:
		case F_REGEXP_REPLACE_TEXT_TEXT_TEXT:
		case F_REGEXP_REPLACE_TEXT_TEXT_TEXT_TEXT:
		case F_REGEXP_REPLACE_TEXT_TEXT_TEXT_INT4:
		case F_REGEXP_REPLACE_TEXT_TEXT_TEXT_INT4_INT4:
		case F_REGEXP_REPLACE_TEXT_TEXT_TEXT_INT4_INT4_TEXT:
		case F_REGEXP_MATCH_TEXT_TEXT:
		case F_REGEXP_MATCH_TEXT_TEXT_TEXT:
		case F_REGEXP_COUNT_TEXT_TEXT:
		case F_REGEXP_COUNT_TEXT_TEXT_INT4:
		case F_REGEXP_COUNT_TEXT_TEXT_INT4_TEXT:
		case F_REGEXP_INSTR_TEXT_TEXT:
		case F_REGEXP_LIKE_TEXT_TEXT:
		case F_REGEXP_LIKE_TEXT_TEXT_TEXT:
		case F_REGEXP_SUBSTR_TEXT_TEXT:
		case F_REGEXP_SPLIT_TO_ARRAY_TEXT_TEXT:
		case F_SUBSTRING_TEXT_TEXT:
		case F_SUBSTRING_TEXT_TEXT_TEXT:
			return true;
		default:
			/* in a procedural language, or another extension's */
			return funcid >= FirstNormalObjectId;
	}
}

static bool
is_costly(Node *node, void *context)
{
	return node != NULL && (check_functions_in_node(node, is_costly_function, NULL) ||
							expression_tree_walker(node, is_costly, context));
}

/*
 * For an expression of this column of the batch, of which
 * expr_follows_from_value() is true; NULL if it is not for us. `by_row`: there
 * is no kernel for it. Memory belongs to the current context.
 */
ByValue *
expr_by_value_create(Expr *expr, Batch *batch, int column, bool by_row)
{
	ByValue    *result;

	if (!is_string(batch, column))
		return NULL;
	result = palloc0(sizeof(ByValue));
	result->column = column;
	result->looks_up = by_row && is_costly((Node *) expr, NULL);
	get_typlenbyval(exprType((Node *) expr), &result->len, &result->byval);
	result->parent = CurrentMemoryContext;
	result->limit = Min(get_hash_memory_limit() / MEMORY_SHARE, MOST_MEMORY);
	result->pause = PAUSE;

	return result;
}

/* ---- memory ---- */

/* Forget the results of codes. */
static void
forget_codes(ByValue *by_value)
{
	by_value->serial = 0;
	if (by_value->code_context != NULL)
		MemoryContextReset(by_value->code_context);
	by_value->code_used = 0;
}

/* Forget everything. */
static void
forget(ByValue *by_value)
{
	if (by_value->context != NULL)
		MemoryContextReset(by_value->context);
	by_value->nslots = by_value->nentries = 0;
	by_value->slots = NULL;
	by_value->used = 0;
	forget_codes(by_value);
}

/* Is there room for that many further bytes? */
static inline bool
has_room(const ByValue *by_value, Size bytes)
{
	return by_value->used + by_value->code_used + bytes <= by_value->limit;
}

/* The bytes that a copy of a result takes, and a few more: that of an expanded object is flat. */
static Size
result_bytes(const ByValue *by_value, Datum value, bool isnull)
{
	return by_value->byval || isnull ? 0 : datumEstimateSpace(value, false, false, by_value->len);
}

/* Copy a result; the caller has seen to it that there is room. */
static Datum
copy_result(const ByValue *by_value, MemoryContext context, Datum value, bool isnull)
{
	MemoryContext old;

	if (by_value->byval || isnull)
		return value;
	old = MemoryContextSwitchTo(context);
	value = datumCopy(value, false, by_value->len);
	MemoryContextSwitchTo(old);
	return value;
}

/* What an allocation takes beside its bytes, on average. */
#define CHUNK_BYTES 16

/* ---- by bytes ---- */

/* Double the number of slots; false if there is no room for them. */
static bool
grow(ByValue *by_value)
{
	uint32		n = by_value->nslots == 0 ? FIRST_SLOTS : 2 * by_value->nslots;
	Slot	   *slots;

	if (!has_room(by_value, n * sizeof(Slot)))
		return false;
	if (by_value->context == NULL)
		by_value->context = AllocSetContextCreate(by_value->parent, "pgbillion results", ALLOCSET_DEFAULT_SIZES);
	slots = MemoryContextAllocZero(by_value->context, n * sizeof(Slot));
	for (uint32 i = 0; i < by_value->nslots; i++)
	{
		Slot	   *slot = &by_value->slots[i];
		uint32		s = slot->hash & (n - 1);

		if (slot->entry == NULL)
			continue;
		while (slots[s].entry != NULL)
			s = (s + 1) & (n - 1);
		slots[s] = *slot;
	}
	if (by_value->slots != NULL)
		pfree(by_value->slots);
	by_value->used += (n - by_value->nslots) * sizeof(Slot);
	by_value->slots = slots;
	by_value->nslots = n;

	return true;
}

/* The slot that has the entry of a string, or a free one; there must be slots. */
static Slot *
find_slot(const ByValue *by_value, uint32 hash, const char *data, int len)
{
	for (uint32 s = hash & (by_value->nslots - 1);; s = (s + 1) & (by_value->nslots - 1))
	{
		Slot	   *slot = &by_value->slots[s];

		if (slot->entry == NULL ||
			(slot->hash == hash && slot->entry->len == len && memcmp(slot->entry->data, data, len) == 0))
			return slot;
	}
}

/* Remember the result of a string in a free slot; NULL if there is no room, or it is too long. */
static Entry *
add_entry(ByValue *by_value, Slot *slot, uint32 hash, const char *data, int len, Datum value, bool isnull)
{
	Size		bytes = result_bytes(by_value, value, isnull);
	Size		entry_bytes = offsetof(Entry, data) + len;
	Entry	   *entry;

	if (bytes > MOST_BYTES || !has_room(by_value, bytes + entry_bytes))
		return NULL;
	entry = MemoryContextAlloc(by_value->context, entry_bytes);
	entry->value = copy_result(by_value, by_value->context, value, isnull);
	by_value->used += bytes + entry_bytes + 2 * CHUNK_BYTES;
	entry->isnull = isnull;
	entry->len = len;
	memcpy(entry->data, data, len);
	slot->hash = hash;
	slot->entry = entry;
	by_value->nentries++;

	return entry;
}

/*
 * The result for a row, by the string that it has. True if it is remembered;
 * otherwise it is in the batch's memory.
 */
static bool
look_up(ByValue *by_value, VectorExpr *expr, Batch *batch, int row, Datum *value, bool *isnull)
{
	const Column *column = batch_column(batch, by_value->column);
	struct varlena *string = (struct varlena *) DatumGetPointer(column->values[row]);
	const char *data;
	int			len;
	uint32		hash;
	Slot	   *slot;
	Entry	   *entry;

	by_value->seen++;
	if ((column->has_nulls && column->nulls[row]) || VARATT_IS_COMPRESSED(string) || VARATT_IS_EXTERNAL(string) ||
		VARSIZE_ANY_EXHDR(string) > MOST_BYTES ||
		((by_value->nentries + 1) * 3 > by_value->nslots * 2 && !grow(by_value)))
	{
		*value = expr_by_row_eval(&expr->by_row, batch, row, isnull);
		return false;
	}
	data = VARDATA_ANY(string);
	len = VARSIZE_ANY_EXHDR(string);
	hash = hash_bytes((const unsigned char *) data, len);
	slot = find_slot(by_value, hash, data, len);
	entry = slot->entry;
	if (entry != NULL)
		by_value->found++;
	else
	{
		*value = expr_by_row_eval(&expr->by_row, batch, row, isnull);
		entry = add_entry(by_value, slot, hash, data, len, *value, *isnull);
		if (entry == NULL)
			return false;
	}
	*value = entry->value;
	*isnull = entry->isnull;
	return true;
}

/* After some rows: is it worth while to go on looking them up? */
static void
decide(ByValue *by_value)
{
	bool		trial = by_value->decisions == 0;

	if (by_value->seen < (trial ? TRIAL : WINDOW))
		return;
	by_value->decisions++;
	if (by_value->found < (trial ? TRIAL_SHARE : REPEATED_SHARE) * by_value->seen)
	{
		by_value->paused = by_value->pause;
		by_value->pause = Min(2 * by_value->pause, LONGEST_PAUSE);
		by_value->decisions = 0;
	}
	by_value->seen = by_value->found = 0;
}

/* Are strings looked up? */
static bool
looks_up(const ByValue *by_value)
{
	return by_value->looks_up && by_value->paused <= 0;
}

static void
eval_by_bytes(ByValue *by_value, VectorExpr *expr, Batch *batch, const uint16 *rows, int n)
{
	for (int i = 0; i < n; i++)
		(void) look_up(by_value, expr, batch, rows != NULL ? rows[i] : i, &expr->values[i], &expr->nulls[i]);
	decide(by_value);
}

/* ---- by rows ---- */

/* Evaluate rows, whatever is remembered. */
void
expr_eval_each(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	if (expr->kernel != NULL && expr->kernel != &by_value_kernel &&
		expr->kernel->eval(expr, batch, rows, n, result))
		return;
	result->values = expr->values;
	result->nulls = expr->nulls;
	result->has_nulls = false;
	for (int i = 0; i < n; i++)
	{
		result->values[i] = expr_by_row_eval(&expr->by_row, batch, rows != NULL ? rows[i] : i,
											 &result->nulls[i]);
		result->has_nulls |= result->nulls[i];
	}
}

/* ---- by codes ---- */

/* Begin with a dictionary. */
static void
begin_dictionary(ByValue *by_value, const Codes *codes)
{
	by_value->after_first = by_value->serial != 0;
	forget_codes(by_value);
	if (codes->n > by_value->room)
	{
		if (by_value->room > 0)
		{
			pfree(by_value->known);
			pfree(by_value->results);
		}
		by_value->room = codes->n;
		by_value->known = MemoryContextAlloc(by_value->parent, codes->n);
		by_value->results = MemoryContextAlloc(by_value->parent, sizeof(Datum) * codes->n);
	}
	if (by_value->code_context == NULL)
		by_value->code_context = AllocSetContextCreate(by_value->parent, "pgbillion results of codes",
													   ALLOCSET_DEFAULT_SIZES);
	memset(by_value->known, CODE_UNKNOWN, codes->n);
	by_value->serial = codes->serial;
}

static inline int
code_of(const Codes *codes, int row)
{
	return codes->codes != NULL ? codes->codes[row] : codes->long_codes[row];
}

/* List the first row of each code that is not known, in their order; return how many. */
static int
find_unknown(ByValue *by_value, const Codes *codes, const uint16 *rows, int n, uint16 *unknown)
{
	uint8	   *known = by_value->known;
	int			found = 0;

	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		int			code = code_of(codes, row);

		if (known[code] != CODE_UNKNOWN)
			continue;
		known[code] = CODE_SOUGHT;
		unknown[found++] = row;
	}
	return found;
}

/* Set the result of a code; false if it is not to be remembered. */
static bool
set_result(ByValue *by_value, int code, Datum value, bool isnull, bool remembered)
{
	Size		bytes = remembered ? 0 : result_bytes(by_value, value, isnull);
	bool		kept = remembered || bytes == 0 || (bytes <= MOST_BYTES && has_room(by_value, bytes));

	if (kept && bytes > 0)
	{
		value = copy_result(by_value, by_value->code_context, value, isnull);
		by_value->code_used += bytes + CHUNK_BYTES;
	}
	by_value->results[code] = value;
	by_value->known[code] = isnull ? CODE_NULL : CODE_VALUE;

	return kept;
}

/* Evaluate the rows listed, of which each has a code of its own; list codes whose result is to be forgotten. */
static int
eval_unknown(ByValue *by_value, VectorExpr *expr, Batch *batch, const Codes *codes, const uint16 *rows, int n,
			 uint16 *passing)
{
	int			npassing = 0;
	Values		values;

	if (looks_up(by_value))
	{
		for (int i = 0; i < n; i++)
		{
			int			code = code_of(codes, rows[i]);
			Datum		value;
			bool		isnull;
			bool		remembered = look_up(by_value, expr, batch, rows[i], &value, &isnull);

			if (!set_result(by_value, code, value, isnull, remembered))
				passing[npassing++] = (uint16) code;
		}
		/* what a dictionary has is repeated by the next one, if at all */
		if (by_value->after_first)
			decide(by_value);
		else
			by_value->seen = by_value->found = 0;
		return npassing;
	}
	by_value->paused -= n;
	expr_eval_each(expr, batch, rows, n, &values);
	for (int i = 0; i < n; i++)
	{
		int			code = code_of(codes, rows[i]);

		if (!set_result(by_value, code, values.values[i], values.nulls[i], false))
			passing[npassing++] = (uint16) code;
	}
	return npassing;
}

static void
eval_by_codes(ByValue *by_value, VectorExpr *expr, Batch *batch, const Codes *codes, const uint16 *rows, int n)
{
	uint16		unknown[BATCH_ROWS];
	uint16		passing[BATCH_ROWS];
	int			nunknown;
	int			npassing = 0;
	const Datum *results;
	const uint8 *known;

	if (by_value->serial != codes->serial)
		begin_dictionary(by_value, codes);
	nunknown = find_unknown(by_value, codes, rows, n, unknown);
	if (nunknown > 0)
		npassing = eval_unknown(by_value, expr, batch, codes, unknown, nunknown, passing);

	results = by_value->results;
	known = by_value->known;
	for (int i = 0; i < n; i++)
	{
		int			code = code_of(codes, rows != NULL ? rows[i] : i);

		expr->values[i] = results[code];
		expr->nulls[i] = known[code] == CODE_NULL;
	}
	for (int i = 0; i < npassing; i++)
		by_value->known[passing[i]] = CODE_UNKNOWN;
}

/* ---- evaluation ---- */

/*
 * Values of the expression for the n rows listed, or for the batch's first n,
 * dense, as vector_expr_eval() has them. False: nothing is remembered of these
 * rows, and the caller is to evaluate them.
 */
bool
expr_by_value_eval(ByValue *by_value, VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	Codes		codes;
	bool		has_codes = n > 0 && batch_codes(batch, by_value->column, &codes);

	if (n == 0 || (!has_codes && !looks_up(by_value)))
	{
		by_value->paused -= n;
		return false;
	}
	/* what was returned the last time is no longer needed */
	if (!has_room(by_value, by_value->limit / 8))
		forget(by_value);
	if (has_codes)
		eval_by_codes(by_value, expr, batch, &codes, rows, n);
	else
		eval_by_bytes(by_value, expr, batch, rows, n);
	result->values = expr->values;
	result->nulls = expr->nulls;
	result->has_nulls = memchr(expr->nulls, true, n) != NULL;

	return true;
}

/* ---- in place of a kernel ---- */

/* The one column that an expression is of, or -1. */
static int
one_column(Expr *expr, Batch *batch)
{
	Bitmapset  *attnos = batch_attnos(list_make1(expr));
	int			attno;

	return bms_get_singleton_member(attnos, &attno) ? batch_index(batch, attno) : -1;
}

/* Compile an expression that has no kernel, but whose results can be remembered; NULL if it is another. */
VectorExpr *
expr_by_value_compile(Expr *expr, Batch *batch)
{
	VectorExpr *result;
	int			column = one_column(expr, batch);

	if (column < 0 || !is_string(batch, column) || !expr_follows_from_value(expr))
		return NULL;
	result = vector_expr_create(sizeof(VectorExpr), &by_value_kernel);
	expr_by_row_prepare(&result->by_row, expr, batch);
	result->by_value = expr_by_value_create(expr, batch, column, true);
	batch->nby_row++;

	return result;
}

static bool
eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	if (!expr_by_value_eval(expr->by_value, expr, batch, rows, n, result))
		expr_eval_each(expr, batch, rows, n, result);
	return true;
}

const ExprKernel by_value_kernel = {
	.eval = eval,
	.always = true,
};
