/*-------------------------------------------------------------------------
 *
 * node.c
 *	  What our scans of a table have in common: a source of batches, a filter,
 *	  parallel workers, and what EXPLAIN tells of these.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "column_index/column_index.h"
#include "vector/aggregate/aggregate.h"
#include "vector/node/node.h"
#include "vector/source/source.h"

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
			counted = bms_add_members(counted, batch_attnos(list_make1(aggref)));
		else
			others = lappend(others, aggref);
	}
	return bms_difference(counted, batch_attnos(others));
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

/* ---- the columnar index ---- */

/*
 * The scan reads a columnar index, if that is not InvalidOid, for these
 * expressions. Those of the index are used where they are among them. The plan
 * says that the index has what is needed. Should it not, because a function that
 * was expanded has been replaced since, the index's source reads the heap.
 */
void
vector_node_use_index(VectorNode *node, Oid index, List *exprs)
{
	Relation	rel;

	node->index = index;
	if (!OidIsValid(index))
		return;
	rel = index_open(index, AccessShareLock);
	node->expressions = column_expressions(rel, ((Scan *) node->css.ss.ps.plan)->scanrelid);
	if (node->expressions != NIL && equal(vector_node_exprs(node, exprs), exprs))
		node->expressions = NIL;
	index_close(rel, NoLock);
}

/* Expressions of the plan with what the index has of them as columns. */
List *
vector_node_exprs(VectorNode *node, List *exprs)
{
	return column_expressions_replace(exprs, node->expressions, ((Scan *) node->css.ss.ps.plan)->scanrelid,
									  RelationGetNumberOfAttributes(node->css.ss.ss_currentRelation));
}

/*
 * Columns of the table that the index lacks are fetched for the rows that the
 * filter and the joins leave; after vector_node_use_index(). None: NIL.
 */
void
vector_node_fetch_late(VectorNode *node, List *attnos)
{
	ListCell   *lc;

	if (attnos == NIL)
		return;
	foreach(lc, attnos)
		node->late = bms_add_member(node->late, lfirst_int(lc));
	node->place = RelationGetNumberOfAttributes(node->css.ss.ss_currentRelation) + list_length(node->expressions) + 1;
}

/* Describe rows with a further column, which says where they are. */
static TupleDesc
with_place(TupleDesc tupdesc)
{
	TupleDesc	result = CreateTemplateTupleDesc(tupdesc->natts + 1);

	for (int i = 1; i <= tupdesc->natts; i++)
		TupleDescCopyEntry(result, i, tupdesc, i);
	TupleDescInitEntry(result, tupdesc->natts + 1, NULL, INT8OID, -1, 0);
	TupleDescFinalize(result);

	return result;
}

/*
 * Describe the table's rows, in the current context: with expressions of the
 * index as further columns, and with the one that says where they are.
 */
TupleDesc
vector_node_describe(VectorNode *node)
{
	TupleDesc	tupdesc = RelationGetDescr(node->css.ss.ss_currentRelation);

	tupdesc = node->expressions == NIL ? CreateTupleDescCopy(tupdesc) : column_expressions_tupdesc(tupdesc, node->expressions);
	return node->place > 0 ? with_place(tupdesc) : tupdesc;
}

/* ---- beginning ---- */

/*
 * Prepare to read the table of the scan into a batch: columns that the clauses
 * need are loaded to filter rows, and others (`later`) for rows that are kept.
 * With a columnar index they are read from it where that can be. `counted`
 * are outputs of which some only count a column, or NIL. All expressions have
 * what the index has of them as columns: vector_node_exprs().
 */
static void
begin_table(VectorNode *node, Batch *batch, List *clauses, Bitmapset *later, List *counted)
{
	ScanState  *ss = &node->css.ss;
	HeapExpressions *expressions = NULL;
	bool		plain = node->expressions == NIL && node->place == 0;

	/*
	 * a copy, whose missing values stay where they are when the cache entry
	 * is rebuilt
	 */
	TupleDesc	tupdesc = CreateTupleDescCopyConstr(RelationGetDescr(ss->ss_currentRelation));

	node->read = batch;
	batch_init(batch, plain ? tupdesc : vector_node_describe(node), batch_attnos(clauses), later, &ss->ps);
	mark_counted(batch, counted);
	if (plain)
		node->table = heap_source_create(ss->ss_currentRelation, tupdesc, batch);
	else
	{
		expressions = heap_expressions_create(ss->ss_currentRelation, tupdesc, node->expressions, node->place, batch);
		node->table = heap_expressions_source(expressions);
	}
	if (OidIsValid(node->index))
		node->table = segment_source_create(ss->ss_currentRelation, node->index, batch, node->table, expressions,
											node->returns_rows, node->place);
	batch->source = node->table;
	node->filter = vector_filter_compile(clauses, batch);
	node->table->excludes = vector_filter_excludes;
	node->table->filter = node->filter;
}

/* What the outputs need of the rows before late columns are fetched: in place of these, where a row is. */
static List *
without_late(VectorNode *node, List *outputs)
{
	Bitmapset  *attnos = bms_add_member(bms_difference(batch_attnos(outputs), node->late), node->place);
	List	   *result = NIL;
	int			attno = -1;

	while ((attno = bms_next_member(attnos, attno)) >= 0)
		result = lappend(result, makeVar(1, attno, INT8OID, -1, InvalidOid, 0));
	return result;
}

/*
 * Have the rows in this batch, which are described alike, get their late
 * columns. If they are the table's, they have yet to pass the filter.
 */
static void
begin_late(VectorNode *node, Batch *input, List *outputs, TupleDesc tupdesc, VectorFilter *filter)
{
	input->econtext = CreateExprContext(node->css.ss.ps.state);
	batch_init(&node->batch, tupdesc, NULL, batch_attnos(outputs), &node->css.ss.ps);
	node->source = late_columns_create(node->table, node->css.ss.ss_currentRelation, input, filter, node->place, node->late,
									   &node->batch);
	node->batch.source = node->source;
}

/*
 * Prepare to read the table of the scan for these outputs, after
 * vector_node_use_index() and vector_node_fetch_late(). Memory belongs to the
 * current context.
 */
void
vector_node_begin(VectorNode *node, List *clauses, List *outputs)
{
	Batch	   *batch;

	if (node->place == 0)
	{
		begin_table(node, &node->batch, clauses, batch_attnos(outputs), outputs);
		node->source = node->table;
		return;
	}
	batch = palloc0(sizeof(Batch));
	begin_table(node, batch, clauses, batch_attnos(without_late(node, outputs)), NIL);
	begin_late(node, batch, outputs, vector_node_describe(node), node->filter);
}

/* The same, to return rows in the table's own form, of which the outputs are needed before. */
void
vector_node_begin_rows(VectorNode *node, List *clauses, List *outputs)
{
	node->returns_rows = true;
	vector_node_begin(node, clauses, outputs);
}

/* The same with joins; the outputs are over their rows. */
void
vector_node_begin_joins(VectorNode *node, List *clauses, List *outputs, JoinRows *joins)
{
	Batch	   *batch = palloc0(sizeof(Batch));
	Batch	   *joined = node->place > 0 ? palloc0(sizeof(Batch)) : &node->batch;
	List	   *needed = node->place > 0 ? without_late(node, outputs) : outputs;

	begin_table(node, batch, clauses, joins_needed(joins, needed), NIL);
	batch->econtext = CreateExprContext(node->css.ss.ps.state);
	node->source = node->joins = joins_create(joins, needed, batch, node->filter, joined);
	if (node->place > 0)
		begin_late(node, joined, outputs, joins->tupdesc, NULL);
	node->batch.source = node->source;
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
		/* what joins give has passed the filter, and what a sink has kept */
		if (batch->n > 0 && source == node->table)
		{
			int			removed = vector_filter_finally(node->filter, batch);

			/* rows that cannot be found make the batch void, too */
			if (batch->n > 0 && node->returns_rows && !batch_locate(batch))
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
	if (node->table->methods->close != NULL)
		node->table->methods->close(node->table);
}

/* ---- parallelism ---- */

Size
vector_node_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return ((VectorNode *) css)->table->shared_size;
}

void
vector_node_initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorNode *node = (VectorNode *) css;

	node->table->methods->share(node->table, coordinate);
}

void
vector_node_reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorNode *node = (VectorNode *) css;

	node->table->methods->share_again(node->table, coordinate);
}

void
vector_node_initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	VectorNode *node = (VectorNode *) css;

	node->table->methods->attach(node->table, coordinate);
}

void
vector_node_shutdown(CustomScanState *css)
{
	VectorNode *node = (VectorNode *) css;

	node->table->methods->detach(node->table);
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
	NodeInstrumentation *instrument = node->css.ss.ps.instrument;

	if (clauses == NIL)
		return;
	vector_node_explain_list(label, list_make1(make_ands_explicit(clauses)), context, prefix, es);
	if (es->analyze && instrument != NULL && (instrument->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyFloat(psprintf("Rows Removed by %s", label), NULL,
							 instrument->nloops > 0 ? instrument->nfiltered2 / instrument->nloops : 0, 0, es);
}
