/*-------------------------------------------------------------------------
 *
 * by_code.h
 *	  Groups by the codes of their keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_BY_CODE_H
#define PGBILLION_VECTOR_BY_CODE_H

#include "vector/group/group_table.h"

typedef struct GroupByCode GroupByCode;

extern GroupByCode *group_by_code_create(VectorExpr **keys, const bool *is_varlena, int nkeys, int ncompared);
extern void group_by_code_reset(GroupByCode *by_code);
extern bool group_by_code(GroupByCode *by_code, GroupTable *table, Batch *batch, uint8 *ids, RowGroups *groups);

#endif							/* PGBILLION_VECTOR_BY_CODE_H */
