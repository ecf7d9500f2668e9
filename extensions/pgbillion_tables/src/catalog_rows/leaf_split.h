/*-------------------------------------------------------------------------
 *
 * leaf_split.h
 *	  A leaf page of a btree split where a run of new entries goes on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_LEAF_SPLIT_H
#define PGBILLION_LEAF_SPLIT_H

#include "access/nbtree.h"
#include "utils/rel.h"

extern void leaf_split_begin(Page page, Page right);
extern void leaf_split_move(Page page, OffsetNumber first, Page right);
extern bool leaf_split(Relation heap, Relation index, BTScanInsert search, Buffer buffer, BTStack stack,
					   OffsetNumber last, Page right);

#endif							/* PGBILLION_LEAF_SPLIT_H */
