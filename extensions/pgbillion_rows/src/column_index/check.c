/*-------------------------------------------------------------------------
 *
 * check.c
 *	  Comparing what a columnar index says with the heap.
 *
 * What is checked is what a query relies on: the rows that a snapshot may read
 * from the index for a block are those of the block that it sees in the heap.
 * So this needs no lock that keeps anybody from writing, and works on a
 * standby. The rows of a block are compared as a multiset: a HOT update of
 * other columns moves a row within its block.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "column_index/store.h"

typedef struct Row
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
} Row;

typedef struct Check
{
	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	ColumnReader *reader;
	int			ncolumns;
	ReturnSetInfo *result;
	ColumnEvaluator *evaluator; /* of the index's expressions, or NULL */
	MemoryContext context;		/* of one block */
	Row		   *heap_rows;
	Row		   *index_rows;
	int			nheap;
} Check;

static void
put_problem(Check *check, BlockNumber block, const char *problem)
{
	Datum		values[3];
	bool		nulls[3] = {false};

	values[0] = ObjectIdGetDatum(RelationGetRelid(check->index));
	values[1] = Int64GetDatum(block);
	values[2] = CStringGetTextDatum(problem);
	tuplestore_putvalues(check->result->setResult, check->result->setDesc, values, nulls);
}

/* What a row of the table has for each column of the index that is in the segment. */
static void
take_values(Check *check, const ColumnSegment *segment, HeapTuple tuple, Row *row)
{
	int			nexpressions = 0;

	if (check->evaluator != NULL)
		column_evaluator_row(check->evaluator, tuple);
	for (int c = 0; c < check->ncolumns; c++)
	{
		AttrNumber	attno = check->index->rd_index->indkey.values[c];
		int			expression = attno == 0 ? nexpressions++ : -1;
		ColumnType	type = column_type_of(check->index, c);

		if (attno != 0)
		{
			row->values[c] = heap_getattr(tuple, attno, RelationGetDescr(check->heap), &row->nulls[c]);
			continue;
		}
		if (segment->columns[c].kind == COLUMN_ABSENT)
			continue;
		row->values[c] = column_evaluator_value(check->evaluator, expression, &row->nulls[c]);
		if (!row->nulls[c])
			row->values[c] = datumCopy(row->values[c], type.byval, type.len);
	}
}

/* The rows of a heap block that the snapshot sees, copied. */
static void
read_heap_rows(Check *check, const ColumnSegment *segment, BlockNumber block)
{
	HeapTuple	rows[MaxHeapTuplesPerPage];
	Buffer		buffer = ReadBuffer(check->heap, block);
	Page		page;
	HeapTupleData tuple;

	check->nheap = 0;
	tuple.t_tableOid = RelationGetRelid(check->heap);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	for (OffsetNumber o = FirstOffsetNumber; o <= PageGetMaxOffsetNumber(page); o++)
	{
		ItemId		item = PageGetItemId(page, o);

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, o);
		if (!HeapTupleSatisfiesVisibility(&tuple, check->snapshot, buffer))
			continue;
		rows[check->nheap++] = heap_copytuple(&tuple);
	}
	UnlockReleaseBuffer(buffer);
	for (int i = 0; i < check->nheap; i++)
		take_values(check, segment, rows[i], &check->heap_rows[i]);
}

/*
 * The rows of a block that the index has; columns that are absent from the
 * segment are left out.  Returns false if the segment was replaced.
 */
static bool
read_index_rows(Check *check, const ColumnSegment *segment, int i)
{
	Datum	   *values = palloc(sizeof(Datum) * (segment->rows[i] + 1));
	bool	   *nulls = palloc(sizeof(bool) * (segment->rows[i] + 1));

	for (int c = 0; c < check->ncolumns; c++)
	{
		bool		has_nulls;

		if (segment->columns[c].kind == COLUMN_ABSENT)
			continue;
		if (!column_reader_decode(check->reader, c, segment->first_row[i], segment->rows[i], NULL, 0, values, nulls,
								  &has_nulls))
			return false;
		for (int r = 0; r < segment->rows[i]; r++)
		{
			check->index_rows[r].values[c] = values[r];
			check->index_rows[r].nulls[c] = nulls[r];
		}
	}
	return true;
}

/* Is a value within the least and the greatest that the segment tells? */
static bool
is_within(const ColumnState *state, const ColumnType *type, Datum value)
{
	int64		integer;

	switch (state->order)
	{
		case COLUMN_ORDER_INTEGER:
			if (type->numeric)
			{
				int			scale;

				return column_decimal_decode(DatumGetPointer(value), &integer, &scale) &&
					scale == state->scale && integer >= state->min && integer <= state->max;
			}
			integer = type->len == 1 ? (int8) DatumGetChar(value) : type->len == 2 ? DatumGetInt16(value) :
				type->len == 4 ? DatumGetInt32(value) : (int64) value;
			return integer >= state->min && integer <= state->max;
		case COLUMN_ORDER_FLOAT:
			{
				float8		number = type->len == 4 ? DatumGetFloat4(value) : DatumGetFloat8(value);

				return number >= state->float_min && number <= state->float_max;
			}
		default:
			return true;
	}
}

static bool
same_value(const ColumnType *type, Datum a, Datum b)
{
	return datum_image_eq(a, b, type->byval, type->len);
}

static bool
same_row(Check *check, const ColumnSegment *segment, const Row *a, const Row *b)
{
	for (int c = 0; c < check->ncolumns; c++)
	{
		ColumnType	type;

		if (segment->columns[c].kind == COLUMN_ABSENT)
			continue;
		if (a->nulls[c] != b->nulls[c])
			return false;
		type = column_type_of(check->index, c);
		if (!a->nulls[c] && !same_value(&type, a->values[c], b->values[c]))
			return false;
	}
	return true;
}

/* Do a block's rows occur in the index as often as in the heap? If not, report it. */
static bool
compare_rows(Check *check, const ColumnSegment *segment, int i)
{
	BlockNumber block = segment->first_block + i;
	int			n = segment->rows[i];
	bool	   *used = palloc0(n + 1);

	if (check->nheap != n)
	{
		put_problem(check, block, psprintf("%d rows, and %d in the table", n, check->nheap));
		return false;
	}
	for (int h = 0; h < n; h++)
	{
		int			r = h;

		/* most often they are in the same order */
		for (int tried = 0; tried < n; tried++, r = (r + 1) % n)
		{
			if (!used[r] && same_row(check, segment, &check->heap_rows[h], &check->index_rows[r]))
				break;
			if (tried == n - 1)
			{
				put_problem(check, block, psprintf("row %d of the table is not there", h + 1));
				return false;
			}
		}
		used[r] = true;
	}
	for (int c = 0; c < check->ncolumns; c++)
	{
		const ColumnState *state = &segment->columns[c];
		ColumnType	type = column_type_of(check->index, c);

		for (int r = 0; state->kind != COLUMN_ABSENT && r < n; r++)
		{
			if (check->index_rows[r].nulls[c] ? !state->has_nulls :
				!is_within(state, &type, check->index_rows[r].values[c]))
			{
				put_problem(check, block, psprintf("a value of column %d is outside of what the segment tells", c + 1));
				return false;
			}
		}
	}
	return true;
}

/* Does a row of the index have the values of the table's? */
static bool
is_row(Check *check, const ColumnSegment *segment, HeapTuple tuple, const Row *row)
{
	Row			found;

	take_values(check, segment, tuple, &found);
	return same_row(check, segment, &found, row);
}

/* Do the line pointers of a block's rows lead to these rows? */
static void
compare_lines(Check *check, const ColumnSegment *segment, int i, const OffsetNumber *lines)
{
	BlockNumber block = segment->first_block + i;
	Buffer		buffer = ReadBuffer(check->heap, block);

	for (int r = 0; r < segment->rows[i]; r++)
	{
		HeapTupleData tuple;
		HeapTuple	copy = NULL;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (column_row_find(check->heap, buffer, check->snapshot, lines[r], &tuple))
			copy = heap_copytuple(&tuple);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		if (copy == NULL || !is_row(check, segment, copy, &check->index_rows[r]))
		{
			put_problem(check, block, psprintf("row %d is not at line pointer %d of the table", r + 1, lines[r]));
			break;
		}
	}
	ReleaseBuffer(buffer);
}

/* Would equality with each value of a block find the block? */
static void
compare_hashes(Check *check, const ColumnSegment *segment, int i)
{
	for (int c = 0; c < check->ncolumns; c++)
	{
		ColumnType	type = column_type_of(check->index, c);

		for (int r = 0; segment->columns[c].has_hashes && r < segment->rows[i]; r++)
		{
			const Row  *row = &check->index_rows[r];
			uint64		groups;

			if (row->nulls[c] ||
				!column_reader_find(check->reader, c, type.hashed_as, &row->values[c], 1, &groups) ||
				(groups >> column_reader_group(check->reader, i) & 1) != 0)
				continue;
			put_problem(check, segment->first_block + i,
						psprintf("a value of column %d is not found by its hash", c + 1));
			return;
		}
	}
}

static void
check_segment(Check *check, const ColumnSegment *segment)
{
	OffsetNumber lines[MaxHeapTuplesPerPage];
	bool		has_lines = column_reader_has_lines(check->reader);

	for (int i = 0; segment->nvalid > 0 && i < segment->nblocks; i++)
	{
		MemoryContext old;
		bool		read;

		if (!segment->valid[i])
			continue;
		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(check->context);
		if (segment->rows[i] > MaxHeapTuplesPerPage)
		{
			put_problem(check, segment->first_block + i, "more rows than a block can have");
			MemoryContextSwitchTo(old);
			continue;
		}
		read = read_index_rows(check, segment, i) &&
			(!has_lines || column_reader_lines(check->reader, i, lines));
		if (read)
		{
			read_heap_rows(check, segment, segment->first_block + i);
			if (compare_rows(check, segment, i))
			{
				compare_hashes(check, segment, i);
				if (has_lines)
					compare_lines(check, segment, i, lines);
			}
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(check->context);
		/* what was replaced is not relied on */
		if (!read)
			return;
	}
}

static void
check_index(ReturnSetInfo *result, Relation heap, Relation index)
{
	int			columns[INDEX_MAX_KEYS];
	const char *why;
	Check		check = {heap, index, GetActiveSnapshot()};
	BlockNumber heap_blocks = RelationGetNumberOfBlocks(heap);
	bool		evaluates = RelationGetIndexExpressions(index) != NIL;
	ColumnOwner caller;

	check.result = result;
	check.ncolumns = RelationGetNumberOfAttributes(index);
	for (int c = 0; c < check.ncolumns; c++)
		columns[c] = c;
	check.reader = column_reader_begin(heap, index, check.snapshot, columns, check.ncolumns, &why);
	if (check.reader == NULL)
	{
		ereport(NOTICE,
				(errmsg("index \"%s\" is not read: %s", RelationGetRelationName(index), why)));
		return;
	}
	/* who checks may be a superuser */
	if (evaluates)
		column_owner_begin(heap, &caller);
	check.evaluator = column_evaluator_begin(heap, index);
	check.context = AllocSetContextCreate(CurrentMemoryContext, "columns: rows of a block", ALLOCSET_DEFAULT_SIZES);
	check.heap_rows = palloc(sizeof(Row) * MaxHeapTuplesPerPage);
	check.index_rows = palloc(sizeof(Row) * MaxHeapTuplesPerPage);
	for (BlockNumber segment = 0;; segment++)
	{
		BlockNumber blocks = column_reader_segment_blocks(check.reader);

		if (segment >= heap_blocks / blocks + (heap_blocks % blocks != 0))
			break;
		check_segment(&check, column_reader_segment(check.reader, segment, heap_blocks));
	}
	MemoryContextDelete(check.context);
	column_evaluator_end(check.evaluator);
	if (evaluates)
		column_owner_end(&caller);
	column_reader_end(check.reader);
}

PG_FUNCTION_INFO_V1(pgbillion_columns_check);

/*
 * pgbillion_rows.columns_check(relation regclass) returns one row per problem
 *		Compare every block that may be read from an index with the table's.
 */
Datum
pgbillion_columns_check(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, column_indexes_of(PG_GETARG_OID(0)))
	{
		Oid			oid = lfirst_oid(lc);
		Oid			table = IndexGetRelation(oid, true);
		Relation	heap;
		Relation	index;

		if (!class_owner_check(oid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(oid));
		heap = OidIsValid(table) ? try_table_open(table, AccessShareLock) : NULL;
		index = heap != NULL ? try_relation_open(oid, AccessShareLock) : NULL;
		if (index != NULL && !RELATION_IS_OTHER_TEMP(index))
			check_index((ReturnSetInfo *) fcinfo->resultinfo, heap, index);
		if (index != NULL)
			relation_close(index, AccessShareLock);
		if (heap != NULL)
			table_close(heap, AccessShareLock);
	}

	PG_RETURN_NULL();
}
