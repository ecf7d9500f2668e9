/*-------------------------------------------------------------------------
 *
 * lazy_heap.h
 *	  A heap whose file appears with its first row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_LAZY_HEAP_H
#define PGBILLION_LAZY_HEAP_H

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

extern void lazy_heap_init(void);
extern bool relation_is_lazy_heap(Relation rel);
extern bool lazy_heap_refresh(Relation rel);
extern bool lazy_heap_read(Relation rel, Snapshot snapshot);
extern bool lazy_to_heap(Relation rel);

/* upgrade.c */
extern void mark_lazy_tables(void);

/* Has a relation of this pg_class.relfilenode no file? */
static inline bool
file_number_is_lazy(RelFileNumber number)
{
	return number == LAZY_FILE_NUMBER;
}

#endif							/* PGBILLION_LAZY_HEAP_H */
