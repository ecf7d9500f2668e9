/*-------------------------------------------------------------------------
 *
 * top_groups.h
 *	  Groups that may be among the first of an order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_TOP_GROUPS_H
#define PGBILLION_VECTOR_TOP_GROUPS_H

#include "vector/group/sink.h"

/* A key of the order, whose values are passed by value. */
typedef struct TopGroupsKey
{
	AttrNumber	attno;			/* of the rows that are made of groups */
	int			output;			/* of the sink, which has the value */
	Oid			operator;		/* the value that comes first is its left */
	Oid			collation;
	bool		nulls_first;
} TopGroupsKey;

/* The first keys of an order, and how many groups are wanted. A plan has it as a list. */
typedef struct TopGroupsOrder
{
	int64		n;
	int			nkeys;
	TopGroupsKey *keys;
} TopGroupsOrder;

extern List *top_groups_list(const TopGroupsOrder *order);
extern TopGroupsOrder top_groups_of_list(List *list);
extern GroupChoice *top_groups_create(const TopGroupsOrder *order);
extern void top_groups_reset(GroupChoice *choice);

#endif							/* PGBILLION_VECTOR_TOP_GROUPS_H */
