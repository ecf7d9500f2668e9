/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  A batch of rows: which columns it has, and which rows are kept.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/bitmapset.h"
#include "utils/lsyscache.h"
#include "optimizer/optimizer.h"

#include "vector/batch.h"

/*
 * The columns of a batch: attributes that a filter needs, and those that are
 * needed later, for rows which it keeps. Memory belongs to the current
 * context.
 */
void
batch_init_columns(Batch *batch, TupleDesc tupdesc, Bitmapset *filter_attnos, Bitmapset *later_attnos)
{
	Bitmapset  *attnos = bms_union(filter_attnos, later_attnos);
	int			attno = -1;

	batch->columns = palloc0(sizeof(Column) * Max(bms_num_members(attnos), 1));
	while ((attno = bms_next_member(attnos, attno)) >= 0)
	{
		Column	   *column = &batch->columns[batch->ncolumns++];

		column->attno = attno;
		column->type = getBaseType(TupleDescAttr(tupdesc, attno - 1)->atttypid);
		column->len = TupleDescAttr(tupdesc, attno - 1)->attlen;
		column->byval = TupleDescAttr(tupdesc, attno - 1)->attbyval;
		column->filter = bms_is_member(attno, filter_attnos);
		column->later = bms_is_member(attno, later_attnos);
		column->values = palloc(sizeof(Datum) * BATCH_ROWS);
		column->nulls = palloc0(sizeof(bool) * BATCH_ROWS);
	}
	batch->later = palloc(sizeof(int) * Max(batch->ncolumns, 1));
	for (int i = 0; i < batch->ncolumns; i++)
	{
		if (batch->columns[i].later)
			batch->later[batch->nlater++] = i;
	}
	bms_free(attnos);
}

/* The same, and what evaluates them. The source is the caller's to set. */
void
batch_init(Batch *batch, TupleDesc tupdesc, Bitmapset *filter_attnos, Bitmapset *later_attnos,
		   PlanState *parent)
{
	batch_init_columns(batch, tupdesc, filter_attnos, later_attnos);
	batch->parent = parent;
	batch->econtext = parent->ps_ExprContext;
	batch->slot = ExecInitExtraTupleSlot(parent->state, tupdesc, &TTSOpsVirtual);
	ExecClearTuple(batch->slot);
	memset(batch->slot->tts_isnull, true, tupdesc->natts * sizeof(bool));
	ExecStoreVirtualTuple(batch->slot);
}

/* The attributes that expressions, or aggregates, need. */
Bitmapset *
batch_attnos(List *exprs)
{
	Bitmapset  *attnos = NULL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) exprs, PVC_RECURSE_AGGREGATES))
		attnos = bms_add_member(attnos, lfirst_node(Var, lc)->varattno);

	return attnos;
}

/* The index of an attribute's column, or -1. */
int
batch_index(Batch *batch, AttrNumber attno)
{
	for (int i = 0; i < batch->ncolumns; i++)
	{
		if (batch->columns[i].attno == attno)
			return i;
	}
	return -1;
}

/*
 * Keep the n rows listed, in order. With `final`, columns that only a filter
 * needs are forgotten.
 */
void
batch_keep(Batch *batch, const uint16 *rows, int n, bool final)
{
	if (batch->source->methods->keep != NULL)
		batch->source->methods->keep(batch->source, batch, rows, n);
	for (int c = 0; c < batch->ncolumns; c++)
	{
		Column	   *column = &batch->columns[c];

		if (!column->loaded || (final && !column->later))
			continue;
		for (int k = 0; k < n; k++)
			column->values[k] = column->values[rows[k]];
		if (column->has_nulls)
		{
			for (int k = 0; k < n; k++)
				column->nulls[k] = column->nulls[rows[k]];
		}
	}
	batch->n = n;
	batch->serial++;
}
