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

/*
 * Prepare to read the table of the scan: columns that the clauses need are
 * loaded to filter rows, and those that the outputs need for rows that are
 * kept. Memory belongs to the current context.
 */
void
vector_node_begin(VectorNode *node, List *clauses, List *outputs)
{
	ScanState  *ss = &node->css.ss;

	/*
	 * a copy, whose missing values stay where they are when the cache entry
	 * is rebuilt
	 */
	TupleDesc	tupdesc = CreateTupleDescCopyConstr(RelationGetDescr(ss->ss_currentRelation));

	batch_init(&node->batch, tupdesc, attnos_of(clauses), attnos_of(outputs), &ss->ps);
	node->source = heap_source_create(ss->ss_currentRelation, tupdesc, &node->batch);
	node->batch.source = node->source;
	node->filter = vector_filter_compile(clauses, &node->batch);
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
			 * the first count is of the qualification, which PostgreSQL
			 * evaluates
			 */
			InstrCountFiltered2(&node->css, removed);
		}
	}
	MemoryContextSwitchTo(old);

	return more;
}

/* ---- parallelism ---- */

Size
vector_node_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return ((VectorNode *) css)->source->methods->shared_size;
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
