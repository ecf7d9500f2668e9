/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  One spelling for what differs between PostgreSQL 15 and 19.
 *
 * Every wrapper takes the newest server's name and signature, so that the
 * remaining code reads as if it were written for that one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_COMPAT_H
#define PGBILLION_COMPAT_H

/* what is redefined below must have been declared */
#include "access/heapam.h"
#include "access/hio.h"
#include "access/nbtree.h"
#include "access/transam.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "optimizer/pathnode.h"
#include "storage/bufpage.h"
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif
#include "storage/smgr.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"

#if PG_VERSION_NUM < 150000
#error "pgbillion needs PostgreSQL 15 or later"
#endif

/*
 * Rows, numerics and bitmaps are read as words of eight bytes, the lowest one
 * first, and columnar indexes are stored so. On other machines nothing of it
 * was ever tested.
 */
#if defined(WORDS_BIGENDIAN) || SIZEOF_VOID_P != 8 || SIZEOF_SIZE_T != 8
#error "pgbillion needs a 64-bit, little-endian machine"
#endif

/* 16 renamed RelFileNode and its members. */
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#define RelFileLocatorNumber(locator) ((locator).relNumber)
#else
#include "storage/relfilenode.h"
typedef RelFileNode RelFileLocator;
typedef Oid RelFileNumber;
#define RelFileNumberIsValid(n) OidIsValid(n)
#define RelFileLocatorNumber(locator) ((locator).relNode)
#define RelFileLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define RelationAssumeNewRelfilelocator(rel) RelationAssumeNewRelfilenode(rel)
#define GetNewRelFileNumber(spc, pg_class, persistence) GetNewRelFileNode(spc, pg_class, persistence)
#define rd_locator rd_node
#define relation_set_new_filelocator relation_set_new_filenode
#endif

static inline RelFileLocator
make_locator(Oid spcoid, RelFileNumber number)
{
	RelFileLocator locator;

#if PG_VERSION_NUM >= 160000
	locator.spcOid = spcoid;
	locator.dbOid = MyDatabaseId;
	locator.relNumber = number;
#else
	locator.spcNode = spcoid;
	locator.dbNode = MyDatabaseId;
	locator.relNode = number;
#endif
	return locator;
}

/* 17 renamed backend ids, and the variables of varsup.c. */
#if PG_VERSION_NUM < 170000
#define INVALID_PROC_NUMBER InvalidBackendId
#define TransamVariables ShmemVariableCache
#endif

/* 18 returns the path of a file by value. */
static inline bool
relation_file_exists(RelFileLocator locator, ForkNumber forknum)
{
#if PG_VERSION_NUM >= 180000
	return access(relpathperm(locator, forknum).str, F_OK) == 0;
#else
	char	   *path = relpathperm(locator, forknum);
	bool		exists = access(path, F_OK) == 0;

	pfree(path);
	return exists;
#endif
}

/* 18 runs every query once. */
#include "executor/executor.h"
static inline void
executor_run(QueryDesc *desc)
{
#if PG_VERSION_NUM >= 180000
	ExecutorRun(desc, ForwardScanDirection, 0);
#else
	ExecutorRun(desc, ForwardScanDirection, 0, true);
#endif
}

/* The same, past the executor's hooks. */
static inline void
standard_executor_run(QueryDesc *desc)
{
#if PG_VERSION_NUM >= 180000
	standard_ExecutorRun(desc, ForwardScanDirection, 0);
#else
	standard_ExecutorRun(desc, ForwardScanDirection, 0, true);
#endif
}

/* 16 replaced the many pg_xxx_aclcheck() by one function. */
#if PG_VERSION_NUM < 160000
#include "catalog/pg_tablespace.h"

static inline AclResult
object_aclcheck(Oid classid, Oid objectid, Oid roleid, AclMode mode)
{
	Assert(classid == TableSpaceRelationId);
	return pg_tablespace_aclcheck(objectid, roleid, mode);
}
#endif

#if PG_VERSION_NUM < 160000
#define namespace_aclcheck(nspid, roleid, mode) pg_namespace_aclcheck(nspid, roleid, mode)
#define proc_aclcheck(oid, roleid, mode) pg_proc_aclcheck(oid, roleid, mode)
#else
#define namespace_aclcheck(nspid, roleid, mode) object_aclcheck(NamespaceRelationId, nspid, roleid, mode)
#define proc_aclcheck(oid, roleid, mode) object_aclcheck(ProcedureRelationId, oid, roleid, mode)
#endif

#if PG_VERSION_NUM < 160000
#define class_owner_check(relid, roleid) pg_class_ownercheck(relid, roleid)
#define namespace_owner_check(nspid, roleid) pg_namespace_ownercheck(nspid, roleid)
#else
#define class_owner_check(relid, roleid) object_ownercheck(RelationRelationId, relid, roleid)
#define namespace_owner_check(nspid, roleid) object_ownercheck(NamespaceRelationId, nspid, roleid)
#endif

/* 16 keeps the privileges that a plan needs apart from its range table. */
#if PG_VERSION_NUM >= 160000
#define check_plan_permissions(plan) ((void) ExecCheckPermissions((plan)->rtable, (plan)->permInfos, true))
#else
#define check_plan_permissions(plan) ((void) ExecCheckRTPerms((plan)->rtable, true))
#endif

/* 17 can also ask for stronger locks. */
#if PG_VERSION_NUM >= 170000
#define lock_held_by_me(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define lock_held_by_me(tag, mode) LockHeldByMe(tag, mode)
#endif

/* 16 lets a heap grow by several pages at once. */
#if PG_VERSION_NUM < 160000
#define RelationGetBufferForTuple(rel, len, other, options, bistate, vmbuf, vmbuf_other, npages) \
	((void) (npages), \
	 RelationGetBufferForTuple(rel, len, other, options, bistate, vmbuf, vmbuf_other))
#endif

/* 16 fetches another backend's status by index, and aligns blocks for direct I/O. */
#if PG_VERSION_NUM >= 160000
typedef PGIOAlignedBlock IOAlignedBlock;
#else
#define pgstat_get_local_beentry_by_index(i) pgstat_fetch_stat_local_beentry(i)
typedef PGAlignedBlock IOAlignedBlock;
#endif

/* 16 passes the heap, 17 no longer a snapshot; 19 is asked for the stack. */
#if PG_VERSION_NUM < 160000
#define _bt_search(rel, heaprel, key, buffer, access, returnstack) \
	((void) (heaprel), _bt_search(rel, key, buffer, access, NULL))
#elif PG_VERSION_NUM < 170000
#define _bt_search(rel, heaprel, key, buffer, access, returnstack) \
	_bt_search(rel, heaprel, key, buffer, access, NULL)
#elif PG_VERSION_NUM < 190000
#define _bt_search(rel, heaprel, key, buffer, access, returnstack) \
	_bt_search(rel, heaprel, key, buffer, access)
#endif
#if PG_VERSION_NUM < 160000
#define _bt_allocbuf(rel, heaprel) \
	((void) (heaprel), _bt_getbuf(rel, P_NEW, BT_WRITE))
#define _bt_finish_split(rel, heaprel, lbuf, stack) \
	((void) (heaprel), _bt_finish_split(rel, lbuf, stack))
#endif

/* 18 also counts how long it took, 19 is given the relation. */
#include "utils/timestamp.h"
#if PG_VERSION_NUM >= 190000
#define report_vacuum(rel) pgstat_report_vacuum(rel, 0, 0, GetCurrentTimestamp())
#elif PG_VERSION_NUM >= 180000
#define report_vacuum(rel) \
	pgstat_report_vacuum(RelationGetRelid(rel), (rel)->rd_rel->relisshared, 0, 0, GetCurrentTimestamp())
#else
#define report_vacuum(rel) pgstat_report_vacuum(RelationGetRelid(rel), (rel)->rd_rel->relisshared, 0, 0)
#endif

/* 18 dropped the argument that was only ever true for ADD COLUMN. */
#if PG_VERSION_NUM < 180000
#define StoreAttrDefault(rel, attnum, expr, is_internal) \
	StoreAttrDefault(rel, attnum, expr, is_internal, false)
#endif

/* 16 renamed the counters of a table; here many rows are counted at once. */
#if PG_VERSION_NUM >= 160000
#define vector_count_tuples_returned(rel, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			(rel)->pgstat_info->counts.tuples_returned += (n); \
	} while (0)
#else
#define vector_count_tuples_returned(rel, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			(rel)->pgstat_info->t_counts.t_tuples_returned += (n); \
	} while (0)
#endif

/* 16 made a function of the tag of a buffer, and counts hits by what they were for. */
#if PG_VERSION_NUM >= 160000
#define init_buffer_tag(tag, locator, forknum, block) InitBufferTag(tag, locator, forknum, block)
#define buffer_tags_equal(a, b) BufferTagsEqual(a, b)
#else
#define init_buffer_tag(tag, locator, forknum, block) INIT_BUFFERTAG(*(tag), *(locator), forknum, block)
#define buffer_tags_equal(a, b) BUFFERTAGS_EQUAL(*(a), *(b))
#endif
#if PG_VERSION_NUM >= 180000
#define count_io_hit(strategy) \
	pgstat_count_io_op(IOOBJECT_RELATION, IOContextForStrategy(strategy), IOOP_HIT, 1, 0)
#elif PG_VERSION_NUM >= 160000
#define count_io_hit(strategy) \
	pgstat_count_io_op(IOOBJECT_RELATION, IOContextForStrategy(strategy), IOOP_HIT)
#else
#define count_io_hit(strategy) ((void) (strategy))
#endif
#define count_buffer_hit(rel, strategy) \
	do { \
		pgstat_count_buffer_read(rel); \
		pgstat_count_buffer_hit(rel); \
		count_io_hit(strategy); \
	} while (0)

/* 16 passes relations where 15 passed the sets of their indexes. */
#if PG_VERSION_NUM >= 160000
#define adjust_appendrel_attrs_to_child(root, node, child, parent) \
	adjust_appendrel_attrs_multilevel(root, node, child, parent)
#else
#define adjust_appendrel_attrs_to_child(root, node, child, parent) \
	adjust_appendrel_attrs_multilevel(root, node, (child)->relids, (parent)->relids)
#endif

/* 16 can leave redundant columns out of GROUP BY and DISTINCT. */
#if PG_VERSION_NUM >= 160000
#define group_clause_of(root) ((root)->processed_groupClause)
#define distinct_clause_of(root) ((root)->processed_distinctClause)
#else
#define group_clause_of(root) ((root)->parse->groupClause)
#define distinct_clause_of(root) ((root)->parse->distinctClause)
#endif

/* 17 keeps a run condition in the path. */
#if PG_VERSION_NUM >= 170000
#define run_condition_of(path) ((path)->runCondition)
#else
#define run_condition_of(path) ((path)->winclause->runCondition)
#endif

/* 16 is told of outer joins that are computed at the same time. */
#if PG_VERSION_NUM < 160000
#define build_join_rel(root, relids, outer, inner, sjinfo, pushed_down, restrictlist) \
	build_join_rel(root, relids, outer, inner, sjinfo, restrictlist)
#endif

/* 16 finds out by itself how many groups grouping sets make. */
#if PG_VERSION_NUM >= 160000
#define create_groupingsets_path(root, rel, subpath, having, strategy, rollups, costs, groups) \
	create_groupingsets_path(root, rel, subpath, having, strategy, rollups, costs)
#endif

/* 16 is told of the outer join that a join may be. */
#if PG_VERSION_NUM < 160000
#define generate_join_implied_equalities(root, join_relids, outer_relids, inner, sjinfo) \
	generate_join_implied_equalities(root, join_relids, outer_relids, inner)
#endif

/*
 * 16 keeps the privileges that a query needs apart from its range table, and
 * asserts that each of them is an entry's. While a query is being planned this
 * need not be so: Citus takes entries out. They are checked all the same.
 */
#if PG_VERSION_NUM >= 160000
#define may_access_tables(query) \
	ExecCheckPermissions(entries_of_permissions((query)->rteperminfos), (query)->rteperminfos, false)

static inline List *
entries_of_permissions(List *rteperminfos)
{
	List	   *entries = NIL;

	for (int i = 0; i < list_length(rteperminfos); i++)
	{
		RangeTblEntry *entry = makeNode(RangeTblEntry);

		entry->rtekind = RTE_RELATION;
		entry->relid = list_nth_node(RTEPermissionInfo, rteperminfos, i)->relid;
		entry->perminfoindex = i + 1;
		entries = lappend(entries, entry);
	}
	return entries;
}
#else
#define may_access_tables(query) ExecCheckRTPerms((query)->rtable, false)
#endif

/* 18 says before a declaration that a function does not return. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn __attribute__((noreturn))
#endif

/* 17 takes the conditions of a pushed down join, 18 counts disabled nodes. */
#if PG_VERSION_NUM < 170000
#define create_foreign_upper_path(root, rel, target, rows, disabled_nodes, startup, total, pathkeys, outer, restrictinfo, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, outer, private)
#elif PG_VERSION_NUM < 180000
#define create_foreign_upper_path(root, rel, target, rows, disabled_nodes, startup, total, pathkeys, outer, restrictinfo, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, outer, restrictinfo, private)
#endif

/* 19 takes the routine of an index access method as it is, where earlier versions copy and free it. */
#if PG_VERSION_NUM >= 190000
#define return_index_am_routine(routine) PG_RETURN_POINTER(&(routine))
#else
#define return_index_am_routine(routine) \
	do { \
		IndexAmRoutine *copy_ = makeNode(IndexAmRoutine); \
		*copy_ = (routine); \
		PG_RETURN_POINTER(copy_); \
	} while (0)
#endif

/* 16 tells an index which is vacuumed its table. */
#if PG_VERSION_NUM >= 160000
#define vacuumed_heap(info) ((info)->heaprel)
#define close_vacuumed_heap(heap) ((void) (heap))
#else
#include "access/table.h"
#include "catalog/index.h"
#define vacuumed_heap(info) \
	table_open(IndexGetRelation(RelationGetRelid((info)->index), false), AccessShareLock)
#define close_vacuumed_heap(heap) table_close(heap, AccessShareLock)
#endif

/* 17 dropped the setting that lets old snapshots lose rows. */
#if PG_VERSION_NUM < 170000
#include "utils/snapmgr.h"
#define old_snapshots_lose_rows() OldSnapshotThresholdActive()
#else
#define old_snapshots_lose_rows() false
#endif

/* 17 has maintenance commands call functions of users with a search path of its own. */
#if PG_VERSION_NUM >= 170000
#define restrict_search_path() RestrictSearchPath()
#else
#include "utils/guc.h"
#define restrict_search_path() \
	((void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, \
							  GUC_ACTION_SAVE, true, 0, false))
#endif

/* 18 tells ANALYZE from VACUUM. */
#if PG_VERSION_NUM < 180000
#define vacuum_delay_point(is_analyze) vacuum_delay_point()
#endif

/* 19 tells the planner which EXPLAIN it is called for. */
#if PG_VERSION_NUM < 190000
#define planner(query, text, options, params, es) planner(query, text, options, params)
#define pg_plan_query(query, text, options, params, es) pg_plan_query(query, text, options, params)
#endif

/* 19 no longer has a function for this. */
#if PG_VERSION_NUM >= 190000
#define _bt_freestack(stack) \
	do { \
		for (BTStack next_, one_ = (stack); one_ != NULL; one_ = next_) \
		{ \
			next_ = one_->bts_parent; \
			pfree(one_); \
		} \
	} while (0)
#endif

/* 19 has the paths of an Append in one place. */
#if PG_VERSION_NUM < 190000
typedef struct AppendPathInput
{
	List	   *subpaths;
	List	   *partial_subpaths;
} AppendPathInput;
#define create_append_path(root, rel, input, pathkeys, required_outer, workers, aware, rows) \
	create_append_path(root, rel, (input).subpaths, (input).partial_subpaths, pathkeys, required_outer, workers, aware, rows)
#endif

/* 19 has a description of rows finished before use: where its columns of fixed places are. */
#if PG_VERSION_NUM < 190000
#define TupleDescFinalize(tupdesc) ((void) (tupdesc))
#endif

/* 19 aggregates before joins itself, and has relations of groups then. */
#if PG_VERSION_NUM < 190000
#define IS_GROUPED_REL(rel) false
#endif

/* 19 has in each relation which kinds of paths it takes; none of them counts as enabled where nothing is set. */
#if PG_VERSION_NUM >= 190000
#define copy_enabled_paths(rel, from) ((rel)->pgs_mask = (from)->pgs_mask)
#else
#define copy_enabled_paths(rel, from) ((void) (rel), (void) (from))
#endif

/* 19 is told whether Materialize is enabled. */
#if PG_VERSION_NUM < 190000
#define create_material_path(rel, subpath, enabled) create_material_path(rel, subpath)
#endif

/* 19 says of a genetic search where extensions say theirs. */
#if PG_VERSION_NUM >= 190000
#define searched_by_geqo(root) (Geqo_planner_extension_id >= 0 && GetGeqoPrivateData(root) != NULL)
#else
#define searched_by_geqo(root) ((root)->join_search_private != NULL)
#endif

/* 19 tells what is measured of a node from what is of a query. */
#if PG_VERSION_NUM < 190000
#define NodeInstrumentation Instrumentation
#endif

/* 19 passes an argument on to what initializes a segment. */
#if PG_VERSION_NUM >= 170000 && PG_VERSION_NUM < 190000
#define GetNamedDSMSegment(name, size, initialize, found, arg) GetNamedDSMSegment(name, size, initialize, found)
#endif

/* 19 has a wider state of buffers. */
#if PG_VERSION_NUM >= 190000
#define read_buffer_state(desc) pg_atomic_read_u64(&(desc)->state)
#else
#define read_buffer_state(desc) pg_atomic_read_u32(&(desc)->state)
#endif

/* 19 can begin a parallel scan elsewhere. */
#if PG_VERSION_NUM < 190000
#define table_block_parallelscan_startblock_init(rel, worker, scan, start, nblocks) \
	table_block_parallelscan_startblock_init(rel, worker, scan)
#endif

/* 19 sets pages all-visible in passing, if the relation is only read. */
#if PG_VERSION_NUM < 190000
#define heap_page_prune_opt(rel, buffer, vmbuffer, rel_read_only) \
	((void) (vmbuffer), (void) (rel_read_only), heap_page_prune_opt(rel, buffer))
#define ScanRelIsReadOnly(scan) false
#endif

/* 19 has flags of scans, and more of them of inserts. */
#if PG_VERSION_NUM >= 190000
typedef uint32 TableInsertOptions;
typedef const VacuumParams *TableVacuumParams;
#else
typedef int TableInsertOptions;
typedef struct VacuumParams *TableVacuumParams;
#define table_beginscan(rel, snapshot, nkeys, key, flags) table_beginscan(rel, snapshot, nkeys, key)
#endif

/* 19 renamed the function that works in place, as there is no other left. */
#if PG_VERSION_NUM < 190000
#define PageSetChecksum(page, block) PageSetChecksumInplace(page, block)
#endif

/* 19 always reads strings as the standard has it. */
#if PG_VERSION_NUM >= 190000
#define strings_conform() true
#else
#define strings_conform() standard_conforming_strings
#endif

#endif							/* PGBILLION_COMPAT_H */
