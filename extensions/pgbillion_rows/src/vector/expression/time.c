/*-------------------------------------------------------------------------
 *
 * time.c
 *	  Parts of dates and timestamps, timestamps that are truncated, and casts
 *	  between the two.
 *
 * What depends on the session's time zone is left to PostgreSQL, as are units
 * other than those below, infinity, and years before 1 or after 9999: nothing
 * else can overflow.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "vector/expression/kernel.h"

/* The days from 2000-01-01 of 0001-01-01 and of 9999-12-31. */
#define FIRST_DAY (-730119)
#define LAST_DAY 2921939

typedef enum Unit
{
	UNIT_SECOND,
	UNIT_MINUTE,
	UNIT_HOUR,
	UNIT_DAY,
	UNIT_WEEK,
	UNIT_MONTH,
	UNIT_QUARTER,
	UNIT_YEAR,
	UNIT_DOW,
	UNIT_ISODOW,
	UNIT_DOY,
	UNIT_NONE					/* of casts */
} Unit;

/* In the order of Unit. */
static const char *const unit_names[] = {
	"second", "minute", "hour", "day", "week", "month", "quarter", "year", "dow", "isodow", "doy"
};

typedef enum Action
{
	TRUNCATE,
	PART_AS_NUMERIC,
	PART_AS_FLOAT,
	AS_DATE,
	AS_TIMESTAMP
} Action;

typedef struct TimeExpr
{
	VectorExpr	expr;
	VectorExpr *operand;
	Action		action;
	Unit		unit;
	bool		of_date;		/* and not of a timestamp */

	/* rows of the same day often come together: the last one */
	int32		day;
	int32		result;			/* of calendar(), for it */

	/* numerics of parts, as they are met */
	MemoryContext context;
	int			nnumerics;
	Datum	   *numerics;

	uint8	   *codes;			/* room for those of a batch, or NULL */
} TimeExpr;

static const struct
{
	Oid			funcid;
	Action		action;
	bool		of_date;
}			functions[] = {
	{F_DATE_TRUNC_TEXT_TIMESTAMP, TRUNCATE, false},
	{F_EXTRACT_TEXT_TIMESTAMP, PART_AS_NUMERIC, false},
	{F_EXTRACT_TEXT_DATE, PART_AS_NUMERIC, true},
	{F_DATE_PART_TEXT_TIMESTAMP, PART_AS_FLOAT, false},
	{F_DATE_TIMESTAMP, AS_DATE, false},
	{F_TIMESTAMP_DATE, AS_TIMESTAMP, true},
};

/* ---- compilation ---- */

/* The unit that an expression names, or UNIT_NONE. */
static Unit
find_unit(Expr *expr)
{
	Const	   *constant = (Const *) expr;
	char	   *name;

	if (!IsA(expr, Const) || constant->constisnull || constant->consttype != TEXTOID)
		return UNIT_NONE;
	name = TextDatumGetCString(constant->constvalue);
	for (int i = 0; i < lengthof(unit_names); i++)
	{
		if (pg_strcasecmp(name, unit_names[i]) == 0)
			return (Unit) i;
	}
	return UNIT_NONE;
}

/* Is it for us? PostgreSQL has no such unit for some, or gives fractions. */
static bool
unit_applies(Unit unit, Action action, bool of_date)
{
	if (unit == UNIT_NONE)
		return false;
	if (action == TRUNCATE)
		return unit <= UNIT_YEAR;
	return of_date ? unit >= UNIT_DAY : unit >= UNIT_MINUTE;
}

static VectorExpr *
compile(Expr *expr, Batch *batch, CompileOperand operand)
{
	FuncExpr   *func = (FuncExpr *) expr;
	TimeExpr   *result;
	Unit		unit = UNIT_NONE;
	VectorExpr *arg;
	int			f = 0;

	if (!IsA(expr, FuncExpr))
		return NULL;
	while (f < lengthof(functions) && functions[f].funcid != func->funcid)
		f++;
	if (f == lengthof(functions))
		return NULL;
	if (functions[f].action < AS_DATE)
	{
		unit = find_unit(linitial(func->args));
		if (!unit_applies(unit, functions[f].action, functions[f].of_date))
			return NULL;
	}
	arg = operand(llast(func->args), batch);
	if (arg == NULL)
		return NULL;
	result = vector_expr_create(sizeof(TimeExpr), &time_kernel);
	result->operand = arg;
	result->action = functions[f].action;
	result->of_date = functions[f].of_date;
	result->unit = unit;
	result->day = PG_INT32_MIN;
	if (result->action == PART_AS_NUMERIC)
	{
		result->context = CurrentMemoryContext;
		result->nnumerics = unit == UNIT_YEAR ? 10000 : 367;
		result->numerics = palloc0(sizeof(Datum) * result->nnumerics);
	}
	return &result->expr;
}

/* ---- evaluation ---- */

/* What a day's unit is: the day on which it begins where that is asked for, or its number. */
static int32
calendar(Unit unit, bool begin, int32 day)
{
	int			julian = day + POSTGRES_EPOCH_JDATE;
	int			year;
	int			month;
	int			month_day;

	j2date(julian, &year, &month, &month_day);
	switch (unit)
	{
		case UNIT_DAY:
			return begin ? day : month_day;
		case UNIT_WEEK:
			return begin ? day - (j2day(julian) + 6) % 7 : date2isoweek(year, month, month_day);
		case UNIT_MONTH:
			return begin ? day - month_day + 1 : month;
		case UNIT_QUARTER:
			return begin ? date2j(year, (month - 1) / 3 * 3 + 1, 1) - POSTGRES_EPOCH_JDATE : (month - 1) / 3 + 1;
		case UNIT_YEAR:
			return begin ? date2j(year, 1, 1) - POSTGRES_EPOCH_JDATE : year;
		case UNIT_DOW:
			return j2day(julian);
		case UNIT_ISODOW:
			return j2day(julian) == 0 ? 7 : j2day(julian);
		case UNIT_DOY:
			return julian - date2j(year, 1, 1) + 1;
		default:
			Assert(false);
			return 0;
	}
}

static inline int32
remembered_calendar(TimeExpr *time, int32 day)
{
	if (day != time->day)
	{
		time->result = calendar(time->unit, time->action == TRUNCATE, day);
		time->day = day;
	}
	return time->result;
}

/* A part as the function returns it. */
static Datum
part_datum(TimeExpr *time, int32 part)
{
	if (time->action == PART_AS_FLOAT)
		return Float8GetDatum(part);
	Assert(part >= 0 && part < time->nnumerics);
	if (time->numerics[part] == (Datum) 0)
	{
		MemoryContext old = MemoryContextSwitchTo(time->context);

		time->numerics[part] = NumericGetDatum(int64_to_numeric(part));
		MemoryContextSwitchTo(old);
	}
	return time->numerics[part];
}

/* The number of a part for a day, and the microseconds in it. */
static inline int32
part_of(TimeExpr *time, int32 day, int64 within)
{
	if (time->unit == UNIT_MINUTE)
		return (int32) (within / USECS_PER_MINUTE % MINS_PER_HOUR);
	if (time->unit == UNIT_HOUR)
		return (int32) (within / USECS_PER_HOUR);
	return remembered_calendar(time, day);
}

/* The result for a day, and the microseconds in it. */
static inline Datum
time_datum(TimeExpr *time, int32 day, int64 within)
{
	int64		begin = (int64) day * USECS_PER_DAY;

	switch (time->action)
	{
		case AS_DATE:
			return DateADTGetDatum(day);
		case AS_TIMESTAMP:
			return TimestampGetDatum(begin);
		case TRUNCATE:
			switch (time->unit)
			{
				case UNIT_SECOND:
					return TimestampGetDatum(begin + within / USECS_PER_SEC * USECS_PER_SEC);
				case UNIT_MINUTE:
					return TimestampGetDatum(begin + within / USECS_PER_MINUTE * USECS_PER_MINUTE);
				case UNIT_HOUR:
					return TimestampGetDatum(begin + within / USECS_PER_HOUR * USECS_PER_HOUR);
				default:
					return TimestampGetDatum(remembered_calendar(time, day) * USECS_PER_DAY);
			}
		default:
			return part_datum(time, part_of(time, day, within));
	}
}

/* The day of a value, and the microseconds in it; false if it is not for us. */
static inline bool
find_day(const TimeExpr *time, Datum value, int64 *day, int64 *within)
{
	*within = 0;
	if (time->of_date)
		*day = DatumGetDateADT(value);
	else
	{
		Timestamp	timestamp = DatumGetTimestamp(value);

		*day = timestamp / USECS_PER_DAY;
		*within = timestamp % USECS_PER_DAY;
		if (*within < 0)
		{
			(*day)--;
			*within += USECS_PER_DAY;
		}
	}
	return *day >= FIRST_DAY && *day <= LAST_DAY;
}

static bool
eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	TimeExpr   *time = (TimeExpr *) expr;
	Values		arg;

	if (!time->operand->kernel->eval(time->operand, batch, rows, n, &arg))
		return false;
	for (int i = 0; i < n; i++)
	{
		int64		day;
		int64		within;

		if (arg.has_nulls && arg.nulls[i])
		{
			expr->values[i] = (Datum) 0;
			continue;
		}
		if (!find_day(time, arg.values[i], &day, &within))
			return false;
		expr->values[i] = time_datum(time, (int32) day, within);
	}
	result->values = expr->values;
	result->nulls = arg.nulls;
	result->has_nulls = arg.has_nulls;
	return true;
}

/* ---- codes ---- */

/* No part but a year and a day of the year is larger; of NULL: */
#define LARGEST_PART 59
#define NULL_PART (LARGEST_PART + 1)

StaticAssertDecl(NULL_PART < SHORT_CODES, "parts are short codes");

static int
ncodes(const VectorExpr *expr)
{
	const TimeExpr *time = (const TimeExpr *) expr;

	return time->action != PART_AS_NUMERIC || time->unit == UNIT_YEAR || time->unit == UNIT_DOY ? 0 : NULL_PART + 1;
}

static bool
codes(VectorExpr *expr, Batch *batch, Codes *result)
{
	TimeExpr   *time = (TimeExpr *) expr;
	Values		arg;

	if (!time->operand->kernel->eval(time->operand, batch, NULL, batch->n, &arg))
		return false;
	if (time->codes == NULL)
		time->codes = MemoryContextAlloc(time->context, sizeof(uint8) * BATCH_ROWS);
	for (int i = 0; i < batch->n; i++)
	{
		int64		day;
		int64		within;

		if (arg.has_nulls && arg.nulls[i])
			time->codes[i] = NULL_PART;
		else if (find_day(time, arg.values[i], &day, &within))
			time->codes[i] = (uint8) part_of(time, (int32) day, within);
		else
			return false;
	}
	result->codes = time->codes;
	result->null = NULL_PART;
	return true;
}

const ExprKernel time_kernel = {
	.compile = compile,
	.eval = eval,
	.ncodes = ncodes,
	.codes = codes,
};
