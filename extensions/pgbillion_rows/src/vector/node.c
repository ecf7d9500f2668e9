/*-------------------------------------------------------------------------
 *
 * node.c
 *	  What our scans of a table have in common: a source of batches, a filter,
 *	  parallel workers, and what EXPLAIN tells of these.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "vector/aggregate/aggregate.h"
#include "vector/node.h"
#include "vector/source/source.h"

static Bitmapset *
attnos_of(List *exprs)
{
	Bitmapset  *attnos = NULL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) exprs, PVC_RECURSE_AGGREGATES))
		attnos = bms_add_member(attnos, lfirst_node(Var, lc)->varattno);

	return attnos;
}

/* The columns that outputs need only as arguments of count(). */
static Bitmapset *
counted_attnos(List *outputs)
{
	List	   *others = NIL;
	Bitmapset  *counted = NULL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		Aggref	   *aggref = lfirst(lc);

		/* with DISTINCT values are compared */
		if (IsA(aggref, Aggref) && aggregate_only_counts(aggref) && aggref->aggfilter == NULL &&
			aggref->aggdistinct == NIL && IsA(linitial_node(TargetEntry, aggref->args)->expr, Var))
			counted = bms_add_members(counted, attnos_of(list_make1(aggref)));
		else
			others = lappend(others, aggref);
	}
	return bms_difference(counted, attnos_of(others));
}

/* Mark the columns of the batch that are only counted, and that any value can stand for. */
static void
mark_counted(Batch *batch, List *outputs)
{
	Bitmapset  *attnos = counted_attnos(outputs);

	for (int i = 0; i < batch->ncolumns; i++)
	{
		Column	   *column = &batch->columns[i];

		column->only_counted = !column->filter && (column->byval || column->len == -1) &&
			bms_is_member(column->attno, attnos);
	}
}

/*
 * Prepare to read the table of the scan: columns that the clauses need are
 * loaded to filter rows, and those that the outputs need for rows that are
 * kept. With an index of columns they are read from it where that can be.
 * Memory belongs to the current context.
 */
void
vector_node_begin(VectorNode *node, List *clauses, List *outputs, Oid index)
{
	ScanState  *ss = &node->css.ss;

	/*
	 * a copy, whose missing values stay where they are when the cache entry
	 * is rebuilt
	 */
	TupleDesc	tupdesc = CreateTupleDescCopyConstr(RelationGetDescr(ss->ss_currentRelation));

	batch_init(&node->batch, tupdesc, attnos_of(clauses), attnos_of(outputs), &ss->ps);
	mark_counted(&node->batch, outputs);
	node->source = heap_source_create(ss->ss_currentRelation, tupdesc, &node->batch);
	if (OidIsValid(index))
		node->source = segment_source_create(ss->ss_currentRelation, index, tupdesc, &node->batch, node->source);
	node->batch.source = node->source;
	node->filter = vector_filter_compile(clauses, &node->batch);
	node->source->excludes = vector_filter_excludes;
	node->source->filter = node->filter;
}

/*
 * Have the batch's source give its next rows, of which the filter keeps some,
 * possibly none. False at the source's end. The batch's memory is reset: what
 * was detoasted or computed on the way is forgotten with the next batch.
 */
bool
vector_node_next(VectorNode *node)
{
	Batch	   *batch = &node->batch;
	Source	   *source = batch->source;
	MemoryContext old;
	bool		more;

	CHECK_FOR_INTERRUPTS();
	ResetExprContext(batch->econtext);
	old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);
	more = source->methods->next(source, batch);
	if (more)
	{
		batch->serial++;
		/* what a sink has kept has passed the filter */
		if (batch->n > 0 && source == node->source)
		{
			int			removed = vector_filter_batch(node->filter, batch);

			/*
			 * from here on what rows are left is final: columns that cannot
			 * be loaded make the batch void before that
			 */
			if (batch->n > 0 && !batch_prepare(batch, batch->later, batch->nlater))
				removed = batch->n = 0;

			/*
			 * the first count is of the qualification, which PostgreSQL
			 * evaluates
			 */
			InstrCountFiltered2(&node->css, removed);
		}
	}
	MemoryContextSwitchTo(old);

	return more;
}

/* The scan has ended: close the source. */
void
vector_node_end(VectorNode *node)
{
	node->source->methods->end(node->source);
	if (node->source->methods->close != NULL)
		node->source->methods->close(node->source);
}

/* ---- parallelism ---- */

Size
vector_node_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return ((VectorNode *) css)->source->shared_size;
}

void
vector_node_initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorNode *node = (VectorNode *) css;

	node->source->methods->share(node->source, coordinate);
}

void
vector_node_reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorNode *node = (VectorNode *) css;

	node->source->methods->share_again(node->source, coordinate);
}

void
vector_node_initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	VectorNode *node = (VectorNode *) css;

	node->source->methods->attach(node->source, coordinate);
}

void
vector_node_shutdown(CustomScanState *css)
{
	VectorNode *node = (VectorNode *) css;

	node->source->methods->detach(node->source);
}

/* ---- EXPLAIN ---- */

/* A property that lists expressions. */
void
vector_node_explain_list(const char *label, List *exprs, List *context, bool prefix, ExplainState *es)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, exprs)
	{
		if (foreach_current_index(lc) > 0)
			appendStringInfoString(&buf, ", ");
		appendStringInfoString(&buf, deparse_expression(lfirst(lc), context, prefix, false));
	}
	ExplainPropertyText(label, buf.data, es);
}

/* The filter by its name, and how many rows it has removed. */
void
vector_node_explain_filter(VectorNode *node, const char *label, List *clauses, List *context, bool prefix,
						   ExplainState *es)
{
	Instrumentation *instrument = node->css.ss.ps.instrument;

	if (clauses == NIL)
		return;
	vector_node_explain_list(label, list_make1(make_ands_explicit(clauses)), context, prefix, es);
	if (es->analyze && instrument != NULL && (instrument->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyFloat(psprintf("Rows Removed by %s", label), NULL,
							 instrument->nloops > 0 ? instrument->nfiltered2 / instrument->nloops : 0, 0, es);
}
