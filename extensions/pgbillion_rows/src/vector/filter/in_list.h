/*-------------------------------------------------------------------------
 *
 * in_list.h
 *	  What IN and NOT IN of all types have in common: in.c, in_text.c and
 *	  in_uuid.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_IN_LIST_H
#define PGBILLION_VECTOR_IN_LIST_H

#include "vector/filter/predicate.h"

/* Each kernel's predicate begins with it. */
typedef struct InList
{
	Predicate	predicate;
	VectorExpr *operand;
	bool		null_element;
	bool		empty;			/* no element at all */
	bool		negated;		/* NOT IN */

	/* Which of n values are elements? Those that are NULL do not matter. */
	void		(*find) (const struct InList *list, const Values *values, int n, bool *found);
} InList;

extern bool in_list_eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth);

#endif							/* PGBILLION_VECTOR_IN_LIST_H */
