/*-------------------------------------------------------------------------
 *
 * lazy_heap.h
 *	  A heap whose file appears with its first row.
 *
 *	lazy_heap.c		what it is, and the routine of the access method
 *	still_lazy.c	whether a table is lazy still
 *	lazy_scan.c		reading
 *	first_row.c		inserting, which makes the table a heap
 *	lazy_files.c	the files that there are nevertheless
 *	at_commit.c		records to be corrected at the end of the transaction
 *	upgrade.c		the mark that stops pg_upgrade
 *	to_heap.c		the SQL functions that make lazy tables heaps
 *	drop_guard.c	the event trigger that stops DROP EXTENSION ... CASCADE
 *	repair.c		owners and grants that were not recorded
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_LAZY_HEAP_H
#define PGBILLION_LAZY_HEAP_H

#include "access/htup.h"
#include "access/tableam.h"
#include "compat.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/*
 * pg_class.relfilenode of every relation that has no file yet. No relation
 * has a file of this number: initdb gives its relations higher ones, and
 * after that GetNewRelFileNumber() never goes below FirstNormalObjectId, not
 * even when the counter wraps around.
 */
#define LAZY_FILE_NUMBER ((RelFileNumber) 1)

/* ---- lazy_heap.c ---- */

/* heap's routine, and ours: a copy with functions of lazy_heap in it */
extern const TableAmRoutine *heap_routine;
extern TableAmRoutine lazy_heap_routine;

extern void lazy_heap_init(void);

/* Is this a table of this access method, as far as its cache entry knows? */
static inline bool
relation_is_lazy_heap(Relation rel)
{
	return rel->rd_tableam == &lazy_heap_routine;
}

/* ---- still_lazy.c ---- */

extern bool lazy_heap_refresh(Relation rel);
extern bool lazy_heap_read(Relation rel, Snapshot snapshot);

/* ---- lazy_scan.c ---- */

extern void lazy_scan_methods(TableAmRoutine *methods);

/* ---- first_row.c ---- */

extern void lazy_insert_methods(TableAmRoutine *methods);
extern bool lazy_to_heap(Relation rel);
extern HeapTuple lazy_lock_class_row(Relation pg_class, Oid relid);

/* ---- lazy_files.c ---- */

extern void lazy_file_methods(TableAmRoutine *methods);

/* ---- at_commit.c ---- */

extern void lazy_at_commit_init(void);
extern void lazy_remember_table(void);
extern void lazy_remember_former(Oid relid, Oid lazy_am);
extern bool lazy_is_former(Oid relid);
extern Oid	lazy_rewritten_relation(Relation rel);
extern void lazy_forget_tablespace(Oid relid);

/* ---- upgrade.c ---- */

extern void lazy_mark_tables(void);
extern List *lazy_tables(void);
extern int	lazy_take_mark_off(Oid *left);

/* Has a relation of this pg_class.relfilenode no file? */
static inline bool
file_number_is_lazy(RelFileNumber number)
{
	return number == LAZY_FILE_NUMBER;
}

#endif							/* PGBILLION_LAZY_HEAP_H */
