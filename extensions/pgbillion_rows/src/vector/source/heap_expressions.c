/*-------------------------------------------------------------------------
 *
 * heap_expressions.c
 *	  Columns of a batch that are expressions of an index, for rows of pages.
 *
 * Where a batch has columns that a columnar index has and the table has not,
 * rows of the heap have them by evaluation. The heap's source gives rows to a
 * batch of its own, with the attributes of the table that are columns or that
 * expressions need, and what is asked for is copied or computed from there. So
 * is a column that says where rows are.
 *
 * All rows of the batch are evaluated, also those of which PostgreSQL would not
 * ask: as every row had its expressions evaluated when it was inserted, or
 * when the index was built, none raises an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/optimizer.h"

#include "vector/expression/expression.h"
#include "vector/source/heap.h"

struct HeapExpressions
{
	Source	   *heap;
	Batch		inner;			/* of the heap's rows */
	int		   *origins;		/* of the batch's columns: the column of
								 * `inner`, or -1: */
	ByRow	   *exprs;
	int			place;			/* the column that says where rows are, or -1 */
};

/* The expression that an attribute of the batch is, or NULL. */
static Expr *
expression_of(List *expressions, int natts, AttrNumber attno)
{
	return attno <= natts || attno > natts + list_length(expressions) ? NULL : list_nth(expressions, attno - natts - 1);
}

/*
 * The table's attributes that columns of a batch need, except the one that says
 * where rows are; with `filter`, those of columns that a filter needs.
 */
static Bitmapset *
needed_attnos(Batch *batch, List *expressions, int natts, int place, bool filter)
{
	Bitmapset  *attnos = NULL;

	for (int i = 0; i < batch->ncolumns; i++)
	{
		Column	   *column = &batch->columns[i];
		Expr	   *expr = expression_of(expressions, natts, column->attno);

		if (i == place || (filter ? !column->filter : !column->later))
			continue;
		attnos = expr == NULL ? bms_add_member(attnos, column->attno) :
			bms_join(attnos, batch_attnos(list_make1(expr)));
	}
	return attnos;
}

/*
 * The rows of a heap for a batch whose columns are the table's, and after these
 * natts the expressions of an index, and maybe one, the attribute `place`, that
 * says where rows are. Everything belongs to the current context.
 */
HeapExpressions *
heap_expressions_create(Relation rel, TupleDesc tupdesc, List *expressions, AttrNumber place, Batch *batch)
{
	HeapExpressions *rows = palloc0(sizeof(HeapExpressions));
	int			natts = tupdesc->natts;

	rows->place = place > 0 ? batch_index(batch, place) : -1;
	batch_init(&rows->inner, tupdesc, needed_attnos(batch, expressions, natts, rows->place, true),
			   needed_attnos(batch, expressions, natts, rows->place, false), batch->parent);
	rows->heap = rows->inner.source = heap_source_create(rel, tupdesc, &rows->inner);
	rows->origins = palloc(sizeof(int) * Max(batch->ncolumns, 1));
	rows->exprs = palloc0(sizeof(ByRow) * Max(batch->ncolumns, 1));
	for (int i = 0; i < batch->ncolumns; i++)
	{
		Expr	   *expr = expression_of(expressions, natts, batch->columns[i].attno);

		rows->origins[i] = expr == NULL && i != rows->place ? batch_index(&rows->inner, batch->columns[i].attno) : -1;
		if (expr != NULL)
			expr_by_row_prepare(&rows->exprs[i], expr, &rows->inner);
	}
	return rows;
}

/* The source of the pages. */
Source *
heap_expressions_source(HeapExpressions *rows)
{
	return rows->heap;
}

/* The next rows, as SourceMethods' next(). */
bool
heap_expressions_next(HeapExpressions *rows, Batch *batch)
{
	Batch	   *inner = &rows->inner;

	/* what is computed lives as long as the batch */
	inner->econtext = batch->econtext;
	if (!rows->heap->methods->next(rows->heap, inner))
		return false;
	inner->serial++;
	batch->n = inner->n;
	for (int i = 0; i < batch->ncolumns; i++)
		batch->columns[i].loaded = false;

	return true;
}

/* Have a column's NULLs say that there is none. */
static void
clear_nulls(Column *column)
{
	if (column->dirty)
		memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
	column->dirty = column->has_nulls = false;
}

void
heap_expressions_load(HeapExpressions *rows, Batch *batch, int index)
{
	Batch	   *inner = &rows->inner;
	Column	   *to = &batch->columns[index];

	Assert(inner->n == batch->n);
	clear_nulls(to);
	if (index == rows->place)
		heap_source_places(rows->heap, batch->n, to->values);
	else if (rows->origins[index] >= 0)
	{
		const Column *from = batch_column(inner, rows->origins[index]);

		memcpy(to->values, from->values, sizeof(Datum) * batch->n);
		if (from->has_nulls)
			memcpy(to->nulls, from->nulls, sizeof(bool) * batch->n);
		to->dirty = to->has_nulls = from->has_nulls;
	}
	else
	{
		for (int i = 0; i < batch->n; i++)
		{
			to->values[i] = expr_by_row_eval(&rows->exprs[index], inner, i, &to->nulls[i]);
			to->has_nulls |= to->nulls[i];
			if (to->nulls[i])
				to->values[i] = (Datum) 0;
		}
		to->dirty = to->has_nulls;
	}
	to->loaded = true;
}

bool
heap_expressions_is_cheap(HeapExpressions *rows, int index)
{
	return rows->origins[index] >= 0 && batch_at_hand(&rows->inner, rows->origins[index]);
}

bool
heap_expressions_has_no_nulls(HeapExpressions *rows, int index)
{
	return rows->origins[index] >= 0 &&
		rows->heap->methods->has_no_nulls(rows->heap, &rows->inner, rows->origins[index]);
}

void
heap_expressions_keep(HeapExpressions *rows, const uint16 *kept, int n)
{
	batch_keep(&rows->inner, kept, n, false);
}
