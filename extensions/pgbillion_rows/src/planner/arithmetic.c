/*-------------------------------------------------------------------------
 *
 * arithmetic.c
 *	  The arithmetic of integers and floats that is known by its functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "planner/arithmetic.h"

static const Arithmetic arithmetics[] = {
	{F_INT2PL, '+', '2', '2', '2'}, {F_INT2MI, '-', '2', '2', '2'}, {F_INT2MUL, '*', '2', '2', '2'},
	{F_INT2DIV, '/', '2', '2', '2'}, {F_INT2MOD, '%', '2', '2', '2'},
	{F_INT4PL, '+', '4', '4', '4'}, {F_INT4MI, '-', '4', '4', '4'}, {F_INT4MUL, '*', '4', '4', '4'},
	{F_INT4DIV, '/', '4', '4', '4'}, {F_INT4MOD, '%', '4', '4', '4'},
	{F_INT8PL, '+', '8', '8', '8'}, {F_INT8MI, '-', '8', '8', '8'}, {F_INT8MUL, '*', '8', '8', '8'},
	{F_INT8DIV, '/', '8', '8', '8'}, {F_INT8MOD, '%', '8', '8', '8'},
	{F_INT24PL, '+', '4', '2', '4'}, {F_INT24MI, '-', '4', '2', '4'}, {F_INT24MUL, '*', '4', '2', '4'}, {F_INT24DIV, '/', '4', '2', '4'},
	{F_INT42PL, '+', '4', '4', '2'}, {F_INT42MI, '-', '4', '4', '2'}, {F_INT42MUL, '*', '4', '4', '2'}, {F_INT42DIV, '/', '4', '4', '2'},
	{F_INT48PL, '+', '8', '4', '8'}, {F_INT48MI, '-', '8', '4', '8'}, {F_INT48MUL, '*', '8', '4', '8'}, {F_INT48DIV, '/', '8', '4', '8'},
	{F_INT84PL, '+', '8', '8', '4'}, {F_INT84MI, '-', '8', '8', '4'}, {F_INT84MUL, '*', '8', '8', '4'}, {F_INT84DIV, '/', '8', '8', '4'},
	{F_INT28PL, '+', '8', '2', '8'}, {F_INT28MI, '-', '8', '2', '8'}, {F_INT28MUL, '*', '8', '2', '8'}, {F_INT28DIV, '/', '8', '2', '8'},
	{F_INT82PL, '+', '8', '8', '2'}, {F_INT82MI, '-', '8', '8', '2'}, {F_INT82MUL, '*', '8', '8', '2'}, {F_INT82DIV, '/', '8', '8', '2'},
	{F_INT4_INT8, '=', '4', '8', 0}, {F_INT2_INT8, '=', '2', '8', 0}, {F_INT2_INT4, '=', '2', '4', 0}, {F_INT4_BOOL, '=', '4', 'b', 0},
	{F_INT8_INT4, '=', '8', '4', 0}, {F_INT8_INT2, '=', '8', '2', 0}, {F_INT4_INT2, '=', '4', '2', 0},
	{F_FLOAT8PL, '+', 'f', 'f', 'f'}, {F_FLOAT8MI, '-', 'f', 'f', 'f'}, {F_FLOAT8MUL, '*', 'f', 'f', 'f'}, {F_FLOAT8DIV, '/', 'f', 'f', 'f'},
	{F_FLOAT48PL, '+', 'f', 'r', 'f'}, {F_FLOAT48MI, '-', 'f', 'r', 'f'}, {F_FLOAT48MUL, '*', 'f', 'r', 'f'}, {F_FLOAT48DIV, '/', 'f', 'r', 'f'},
	{F_FLOAT84PL, '+', 'f', 'f', 'r'}, {F_FLOAT84MI, '-', 'f', 'f', 'r'}, {F_FLOAT84MUL, '*', 'f', 'f', 'r'}, {F_FLOAT84DIV, '/', 'f', 'f', 'r'},
	{F_FLOAT8_FLOAT4, '=', 'f', 'r', 0}, {F_FLOAT8_INT2, '=', 'f', '2', 0}, {F_FLOAT8_INT4, '=', 'f', '4', 0}, {F_FLOAT8_INT8, '=', 'f', '8', 0},
};

/* The arithmetic that an expression is, and its operands; NULL if it is none. */
const Arithmetic *
arithmetic_find(Expr *expr, List **args)
{
	Oid			funcid;

	if (IsA(expr, OpExpr))
	{
		*args = ((OpExpr *) expr)->args;
		funcid = ((OpExpr *) expr)->opfuncid;
	}
	else if (IsA(expr, FuncExpr))
	{
		*args = ((FuncExpr *) expr)->args;
		funcid = ((FuncExpr *) expr)->funcid;
	}
	else
		return NULL;

	for (int i = 0; i < lengthof(arithmetics); i++)
	{
		if (arithmetics[i].funcid == funcid)
			return &arithmetics[i];
	}
	return NULL;
}

/* The operator, or = for a cast, of an expression of integers, and its operands; 0 if it has none. */
char
arithmetic_integer_operator(Expr *expr, List **args)
{
	const Arithmetic *arithmetic = arithmetic_find(expr, args);

	return arithmetic == NULL || arithmetic->kind == 'f' ? 0 : arithmetic->op;
}

/* Binary-compatible relabelling changes nothing in a value. */
Expr *
planner_strip_relabel(Expr *expr)
{
	while (expr != NULL && IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	return expr;
}
