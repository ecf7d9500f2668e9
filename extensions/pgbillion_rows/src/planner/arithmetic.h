/*-------------------------------------------------------------------------
 *
 * arithmetic.h
 *	  The arithmetic of integers and floats that is known by its functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_ARITHMETIC_H
#define PGBILLION_ARITHMETIC_H

#include "nodes/primnodes.h"

/* Arithmetic: what is done, and how wide an integer result may be. */
typedef struct Arithmetic
{
	Oid			funcid;
	char		op;				/* one of + - * / %, or = for a cast */
	char		kind;			/* of the result: integer of '2', '4', '8'
								 * bytes, or float 'f' (8), 'r' (4) */
	char		left;			/* of the operands; of a cast also boolean 'b' */
	char		right;
} Arithmetic;

extern const Arithmetic *arithmetic_find(Expr *expr, List **args);
extern char arithmetic_integer_operator(Expr *expr, List **args);
extern Expr *planner_strip_relabel(Expr *expr);

#endif							/* PGBILLION_ARITHMETIC_H */
