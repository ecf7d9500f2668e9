/*-------------------------------------------------------------------------
 *
 * name_format.c
 *	  Names that are made of a number by a printf-like format.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "ddl/ddl.h"

static void append_number(StringInfo buf, const NameFormat *format, int64 number);

/*
 * Parse a printf-like name_format: exactly one of %d, %o, %x and %X, with an
 * optional 0 and a width; %% is a percent sign. Result in the current memory
 * context. Raises 22023.
 */
NameFormat *
name_format_parse(const char *format)
{
	NameFormat *result = palloc0(sizeof(NameFormat));
	StringInfoData literal;
	const char *p;

	initStringInfo(&literal);

	for (p = format; *p != '\0'; p++)
	{
		if (*p != '%')
		{
			appendStringInfoChar(&literal, *p);
			continue;
		}
		p++;
		if (*p == '%')
		{
			appendStringInfoChar(&literal, '%');
			continue;
		}

		if (result->base != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("name format \"%s\" has more than one number", format),
					 errhint("Use one of %%d, %%o, %%x and %%X once, and %%%% for a percent sign.")));

		if (*p == '0')
		{
			result->zero_pad = true;
			p++;
		}
		while (*p >= '0' && *p <= '9' && result->width < NAMEDATALEN)
			result->width = result->width * 10 + (*p++ - '0');

		switch (*p)
		{
			case 'd':
				result->base = 10;
				break;
			case 'o':
				result->base = 8;
				break;
			case 'X':
				result->upper = true;
				/* FALLTHROUGH */
			case 'x':
				result->base = 16;
				break;
			default:
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("name format \"%s\" is not valid", format),
						 errhint("Use one of %%d, %%o, %%x and %%X, with an optional 0 and width, as in \"_%%08x\".")));
		}
		result->prefix = pstrdup(literal.data);
		resetStringInfo(&literal);
	}

	if (result->base == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name format \"%s\" gives every table the same name", format),
				 errhint("Use one of %%d, %%o, %%x and %%X where the number goes, as in \"_%%08x\".")));

	result->suffix = literal.data;
	return result;
}

static void
append_number(StringInfo buf, const NameFormat *format, int64 number)
{
	const char *digits = format->upper ? "0123456789ABCDEF" : "0123456789abcdef";
	char		text[NAMEDATALEN + 32];
	char	   *p = text + sizeof(text);
	int			length = 0;
	uint64		rest = (uint64) number;

	do
	{
		*--p = digits[rest % format->base];
		rest /= format->base;
		length++;
	} while (rest != 0);

	for (; length < Min(format->width, NAMEDATALEN); length++)
		*--p = format->zero_pad ? '0' : ' ';

	appendBinaryStringInfo(buf, p, length);
}

/*
 * The name of table `number`, padded with zeros to NAMEDATALEN. The caller
 * has checked the lengths.
 */
void
name_format_apply(const NameFormat *format, int64 number, NameData *name)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, format->prefix);
	append_number(&buf, format, number);
	appendStringInfoString(&buf, format->suffix);
	Assert(buf.len < NAMEDATALEN);
	namestrcpy(name, buf.data);
	pfree(buf.data);
}

/* Raises 42622 if a name of the range is longer than NAMEDATALEN - 1 bytes. */
void
name_format_check_lengths(const NameFormat *format, int64 first, int64 last)
{
	StringInfoData buf;

	/* the last number has the most digits */
	initStringInfo(&buf);
	appendStringInfoString(&buf, format->prefix);
	append_number(&buf, format, last);
	appendStringInfoString(&buf, format->suffix);
	if (buf.len >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("table name \"%s\" is too long", buf.data),
				 errdetail("It has %d bytes; a name can have %d.", buf.len, NAMEDATALEN - 1)));
	pfree(buf.data);
}

/*
 * Raises an error unless first … first + count - 1 are numbers for names;
 * `what` is what is numbered.
 */
void
name_format_check_numbers(int64 first, int64 count, const char *what)
{
	if (count <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be greater than zero")));
	if (first < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("first must not be negative")));
	if (count - 1 > PG_INT64_MAX - first)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("the last %s's number is out of range", what)));
	/* they would be made for hours, and fail in the end */
	if (count > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("count must not be greater than %u", PG_UINT32_MAX),
				 errdetail("Each %s needs an OID of its own.", what)));
}
