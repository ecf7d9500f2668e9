/*-------------------------------------------------------------------------
 *
 * deparse.c
 *	  SQL for an aggregate over one foreign table.
 *
 * Checking and writing are one pass: an expression is written to the buffer
 * until a part of it turns out not to be for the shard, which ends it all.
 * The rules are postgres_fdw's: only objects that are built in, or belong to
 * an extension that the server's option "extensions" names, and are immutable;
 * and only collations that come from columns of the foreign table. Unlike with
 * postgres_fdw, the name of a unit of time needs no collation. Partial
 * aggregates are for the shard when they have been declared (partial.c): those
 * of our extension, which are verified there (verify_functions.c), and others by the same
 * rules.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "planner/aggregates.h"
#include "compat.h"
#include "shard/shard.h"
#include "shard/validate.h"
#include "shard/verify_functions.h"

/* Where the collation of an expression comes from; a later state outweighs an earlier one. */
typedef struct Origin
{
	enum
	{
		COLLATION_NONE,			/* not collatable, or the default */
		COLLATION_SAFE,			/* from a column of the foreign table */
		COLLATION_UNSAFE		/* from elsewhere, or two are in conflict */
	}			state;
	Oid			collation;
} Origin;

typedef struct Context
{
	StringInfo	buf;
	RelOptInfo *rel;			/* the foreign table */
	Oid			relid;
	List	   *extensions;		/* those of the server's option */
	List	   *params;			/* expressions to send as $1, $2 … */
	int			states;			/* SHARD_STATE_… */
	List	   *functions;		/* names of those of our extension */
	const char *reason;			/* why an aggregate is not for the shard, if
								 * more than that is known */
} Context;

static bool write_expr(Node *node, Context *cxt, Origin *outer);

static bool
shippable(Oid object, Oid class, Context *cxt)
{
	Oid			extension;

	if (object < FirstGenbkiObjectId)
		return true;
	if (cxt->extensions == NIL)
		return false;
	extension = getExtensionOfObject(class, object);
	return OidIsValid(extension) && list_member_oid(cxt->extensions, extension);
}

static void
write_type(Oid type, int32 typmod, Context *cxt)
{
	uint16		flags = FORMAT_TYPE_TYPEMOD_GIVEN;

	if (type >= FirstGenbkiObjectId)
		flags |= FORMAT_TYPE_FORCE_QUALIFY;
	appendStringInfoString(cxt->buf, format_type_extended(type, typmod, flags));
}

static void
write_name(Oid namespace, const char *name, Context *cxt)
{
	if (namespace != PG_CATALOG_NAMESPACE)
		appendStringInfo(cxt->buf, "%s.", quote_identifier(get_namespace_name(namespace)));
	appendStringInfoString(cxt->buf, quote_identifier(name));
}

static void
write_function(Oid function, Context *cxt)
{
	write_name(get_func_namespace(function), get_func_name(function), cxt);
	appendStringInfoChar(cxt->buf, '(');
}

static bool
write_list(List *list, Context *cxt, Origin *outer)
{
	ListCell   *lc;

	foreach(lc, list)
	{
		if (lc != list_head(list))
			appendStringInfoString(cxt->buf, ", ");
		if (!write_expr(lfirst(lc), cxt, outer))
			return false;
	}
	return true;
}

/*
 * A literal of string type would be escaped by how standard_conforming_strings
 * is set on the shard, unless written as E''.
 */
static void
write_literal(const char *value, Context *cxt)
{
	const char *c;

	if (strchr(value, '\\') != NULL)
		appendStringInfoChar(cxt->buf, 'E');
	appendStringInfoChar(cxt->buf, '\'');
	for (c = value; *c; c++)
	{
		if (*c == '\'' || *c == '\\')
			appendStringInfoChar(cxt->buf, *c);
		appendStringInfoChar(cxt->buf, *c);
	}
	appendStringInfoChar(cxt->buf, '\'');
}

/* Values of these types name objects of this database, by OID; they mean nothing in another. */
bool
shard_names_object(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGCOLLATIONOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGNAMESPACEOID:
		case REGROLEOID:
			return true;
		default:
			return false;
	}
}

static bool
write_const(Const *node, Context *cxt)
{
	Oid			output;
	bool		isvarlena;
	char	   *value;

	if (node->constisnull)
		appendStringInfoString(cxt->buf, "NULL");
	else
	{
		getTypeOutputInfo(node->consttype, &output, &isvarlena);
		value = OidOutputFunctionCall(output, node->constvalue);
		if (node->consttype == INT4OID)
		{
			appendStringInfo(cxt->buf, value[0] == '-' ? "(%s)" : "%s", value);
			return true;
		}
		write_literal(value, cxt);
	}
	appendStringInfoString(cxt->buf, "::");
	write_type(node->consttype, node->consttypmod, cxt);
	return true;
}

static bool
write_var(Var *node, Context *cxt)
{
	List	   *options;
	ListCell   *lc;
	const char *name = NULL;

	if (node->varlevelsup != 0 || node->varno != cxt->rel->relid || node->varattno <= 0)
		return false;

	options = GetForeignColumnOptions(cxt->relid, node->varattno);
	foreach(lc, options)
	{
		DefElem    *def = lfirst(lc);

		if (strcmp(def->defname, "column_name") == 0)
			name = defGetString(def);
	}
	if (name == NULL)
		name = get_attname(cxt->relid, node->varattno, false);
	appendStringInfoString(cxt->buf, quote_identifier(name));
	return true;
}

static bool
write_param(Param *node, Context *cxt)
{
	int			number = 0;
	ListCell   *lc;

	if (node->paramkind != PARAM_EXTERN && node->paramkind != PARAM_EXEC)
		return false;
	foreach(lc, cxt->params)
	{
		number++;
		if (equal(lfirst(lc), node))
			break;
	}
	if (lc == NULL)
	{
		cxt->params = lappend(cxt->params, node);
		number = list_length(cxt->params);
	}
	appendStringInfo(cxt->buf, "$%d::", number);
	write_type(node->paramtype, node->paramtypmod, cxt);
	return true;
}

static bool
write_cast(Expr *arg, Oid type, int32 typmod, Context *cxt, Origin *inner)
{
	appendStringInfoChar(cxt->buf, '(');
	if (!write_expr((Node *) arg, cxt, inner))
		return false;
	appendStringInfoString(cxt->buf, ")::");
	write_type(type, typmod, cxt);
	return true;
}

/* f(arguments), or a cast */
static bool
write_func(FuncExpr *node, Context *cxt, Origin *inner)
{
	ListCell   *lc;

	if (!shippable(node->funcid, ProcedureRelationId, cxt))
		return false;

	if (node->funcformat == COERCE_IMPLICIT_CAST || node->funcformat == COERCE_EXPLICIT_CAST)
	{
		int32		typmod;

		(void) exprIsLengthCoercion((Node *) node, &typmod);
		return write_cast(linitial(node->args), node->funcresulttype, typmod, cxt, inner);
	}

	write_function(node->funcid, cxt);
	foreach(lc, node->args)
	{
		if (lc != list_head(node->args))
			appendStringInfoString(cxt->buf, ", ");
		if (node->funcvariadic && lnext(node->args, lc) == NULL)
			appendStringInfoString(cxt->buf, "VARIADIC ");
		if (!write_expr(lfirst(lc), cxt, inner))
			return false;
	}
	appendStringInfoChar(cxt->buf, ')');
	return true;
}

static bool
write_operator(Oid opno, Context *cxt)
{
	HeapTuple	tuple;
	Form_pg_operator op;

	if (!shippable(opno, OperatorRelationId, cxt))
		return false;
	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", opno);
	op = (Form_pg_operator) GETSTRUCT(tuple);
	if (op->oprnamespace == PG_CATALOG_NAMESPACE)
		appendStringInfoString(cxt->buf, NameStr(op->oprname));
	else
		appendStringInfo(cxt->buf, "OPERATOR(%s.%s)",
						 quote_identifier(get_namespace_name(op->oprnamespace)), NameStr(op->oprname));
	ReleaseSysCache(tuple);
	return true;
}

/*
 * IS DISTINCT FROM and NULLIF look for their operator in the search path of
 * the shard's session: PostgreSQL's schema.
 */
static bool
is_plain_equality(Oid opno)
{
	return opno < FirstGenbkiObjectId;
}

static bool
write_op(OpExpr *node, Context *cxt, Origin *inner)
{
	appendStringInfoChar(cxt->buf, '(');
	if (list_length(node->args) == 2)
	{
		if (!write_expr(linitial(node->args), cxt, inner))
			return false;
		appendStringInfoChar(cxt->buf, ' ');
	}
	if (IsA(node, DistinctExpr))
	{
		if (!is_plain_equality(node->opno))
			return false;
		appendStringInfoString(cxt->buf, "IS DISTINCT FROM");
	}
	else if (!write_operator(node->opno, cxt))
		return false;
	appendStringInfoChar(cxt->buf, ' ');
	if (!write_expr(llast(node->args), cxt, inner))
		return false;
	appendStringInfoChar(cxt->buf, ')');
	return true;
}

static bool
write_nullif(NullIfExpr *node, Context *cxt, Origin *inner)
{
	if (!is_plain_equality(node->opno))
		return false;
	appendStringInfoString(cxt->buf, "NULLIF(");
	if (!write_list(node->args, cxt, inner))
		return false;
	appendStringInfoChar(cxt->buf, ')');
	return true;
}

static bool
write_coalesce(CoalesceExpr *node, Context *cxt, Origin *inner)
{
	appendStringInfoString(cxt->buf, "COALESCE(");
	if (!write_list(node->args, cxt, inner))
		return false;
	appendStringInfoChar(cxt->buf, ')');
	return true;
}

static bool
write_array(ArrayExpr *node, Context *cxt, Origin *inner)
{
	appendStringInfoString(cxt->buf, "ARRAY[");
	if (!write_list(node->elements, cxt, inner))
		return false;
	appendStringInfoString(cxt->buf, "]::");
	write_type(node->array_typeid, -1, cxt);
	return true;
}

static bool
write_scalar_array_op(ScalarArrayOpExpr *node, Context *cxt, Origin *inner)
{
	appendStringInfoChar(cxt->buf, '(');
	if (!write_expr(linitial(node->args), cxt, inner))
		return false;
	appendStringInfoChar(cxt->buf, ' ');
	if (!write_operator(node->opno, cxt))
		return false;
	appendStringInfo(cxt->buf, " %s (", node->useOr ? "ANY" : "ALL");
	if (!write_expr(lsecond(node->args), cxt, inner))
		return false;
	appendStringInfoString(cxt->buf, "))");
	return true;
}

static bool
write_bool(BoolExpr *node, Context *cxt, Origin *inner)
{
	ListCell   *lc;

	appendStringInfoChar(cxt->buf, '(');
	foreach(lc, node->args)
	{
		if (node->boolop == NOT_EXPR)
			appendStringInfoString(cxt->buf, "NOT ");
		else if (lc != list_head(node->args))
			appendStringInfoString(cxt->buf, node->boolop == AND_EXPR ? " AND " : " OR ");
		if (!write_expr(lfirst(lc), cxt, inner))
			return false;
	}
	appendStringInfoChar(cxt->buf, ')');
	return true;
}

static bool
write_bool_test(BooleanTest *node, Context *cxt, Origin *inner)
{
	static const char *const tests[] = {
		[IS_TRUE] = "TRUE",[IS_NOT_TRUE] = "NOT TRUE",
		[IS_FALSE] = "FALSE",[IS_NOT_FALSE] = "NOT FALSE",
		[IS_UNKNOWN] = "UNKNOWN",[IS_NOT_UNKNOWN] = "NOT UNKNOWN"
	};

	appendStringInfoChar(cxt->buf, '(');
	if (!write_expr((Node *) node->arg, cxt, inner))
		return false;
	appendStringInfo(cxt->buf, " IS %s)", tests[node->booltesttype]);
	return true;
}

static bool
write_null_test(NullTest *node, Context *cxt, Origin *inner)
{
	bool		is_null = node->nulltesttype == IS_NULL;

	appendStringInfoChar(cxt->buf, '(');
	if (!write_expr((Node *) node->arg, cxt, inner))
		return false;

	/* of a composite value, IS NULL asks something else than of others */
	if (node->argisrow || !type_is_rowtype(exprType((Node *) node->arg)))
		appendStringInfoString(cxt->buf, is_null ? " IS NULL)" : " IS NOT NULL)");
	else
		appendStringInfoString(cxt->buf, is_null ? " IS NOT DISTINCT FROM NULL)" : " IS DISTINCT FROM NULL)");
	return true;
}

/* CASE WHEN …; not CASE x WHEN …, whose parts the planner may have rewritten beyond recognition */
static bool
write_case(CaseExpr *node, Context *cxt, Origin *inner)
{
	ListCell   *lc;

	if (node->arg != NULL)
		return false;
	appendStringInfoString(cxt->buf, "(CASE");
	foreach(lc, node->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		Origin		condition = {COLLATION_NONE, InvalidOid};

		appendStringInfoString(cxt->buf, " WHEN ");
		if (!write_expr((Node *) when->expr, cxt, &condition))
			return false;
		appendStringInfoString(cxt->buf, " THEN ");
		if (!write_expr((Node *) when->result, cxt, inner))
			return false;
	}
	appendStringInfoString(cxt->buf, " ELSE ");
	if (!write_expr((Node *) node->defresult, cxt, inner))
		return false;
	appendStringInfoString(cxt->buf, " END)");
	return true;
}

/*
 * Serialized states of polymorphic aggregates may hold the OID of the type of
 * the values in them: only a built-in type has the same on the shard.
 */
static bool
state_can_travel(Aggref *node)
{
	Oid		   *declared;
	int			nargs;
	ListCell   *lc;

	(void) get_func_signature(node->aggfnoid, &declared, &nargs);
	foreach(lc, node->aggargtypes)
	{
		int			i = foreach_current_index(lc);
		Oid			type = lfirst_oid(lc);
		Oid			element = get_element_type(type);

		if (i >= nargs || !IsPolymorphicType(declared[i]))
			continue;
		if (OidIsValid(element))
			type = element;
		if (type >= FirstGenbkiObjectId || shard_names_object(type) || type == RECORDOID)
			return false;
	}
	return true;
}

/* May values of this type hold characters of the database's encoding? */
static bool
has_text(Oid type)
{
	Oid			element = get_element_type(type);
	char		category;
	bool		preferred;

	if (OidIsValid(element))
		type = element;
	if (type == BYTEAOID || type == UUIDOID)
		return false;
	get_type_category_preferred(type, &category, &preferred);
	return strchr("BDGINTV", category) == NULL;
}

/* What has to be alike here and there for the serialized state of this aggregate to mean the same. */
static int
state_needs(Aggref *node)
{
	ListCell   *lc;
	bool		text = false;

	foreach(lc, node->aggargtypes)
		text |= has_text(lfirst_oid(lc));
	if (!text)
		return SHARD_STATE_SERIALIZED;
	switch (node->aggfnoid)
	{
		case F_STRING_AGG_TEXT_TEXT:
			return SHARD_STATE_SERIALIZED | SHARD_STATE_RAW_TEXT;
		case F_ARRAY_AGG_ANYNONARRAY:
		case F_ARRAY_AGG_ANYARRAY:
			return SHARD_STATE_SERIALIZED | SHARD_STATE_SENT_TEXT;
		default:
			return SHARD_STATE_SERIALIZED | SHARD_STATE_RAW_TEXT | SHARD_STATE_SENT_TEXT;
	}
}

/*
 * The argument of an aggregate with a serialized state, which does not tell
 * what it was made from: the column on the shard may be of another type than
 * here.
 */
static bool
write_cast_argument(Expr *arg, Context *cxt, Origin *inner)
{
	bool		cast = IsA(arg, Var) || IsA(arg, OpExpr) || IsA(arg, CaseExpr) || IsA(arg, CoalesceExpr) ||
		IsA(arg, NullIfExpr) ||
		(IsA(arg, FuncExpr) && ((FuncExpr *) arg)->funcformat != COERCE_IMPLICIT_CAST &&
		 ((FuncExpr *) arg)->funcformat != COERCE_EXPLICIT_CAST);

	if (!cast)
		return write_expr((Node *) arg, cxt, inner);
	return write_cast(arg, exprType((Node *) arg), -1, cxt, inner);
}

/*
 * May this aggregate be called on the shard? One of our extension has to be
 * verified there.
 */
static bool
callable(Oid aggregate, Context *cxt)
{
	ListCell   *lc;
	char	   *name;

	if (shippable(aggregate, ProcedureRelationId, cxt))
		return true;
	if (!shard_is_ours(aggregate) || !shard_is_partial_aggregate(aggregate))
	{
		cxt->reason = "the partial form of an aggregate is of no extension that the server's option \"extensions\" names";
		return false;
	}
	name = get_func_name(aggregate);
	foreach(lc, cxt->functions)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	cxt->functions = lappend(cxt->functions, name);
	return true;
}

static bool
write_aggref(Aggref *node, Context *cxt, Origin *inner)
{
	bool		serialized = false;
	Oid			aggregate = node->aggfnoid;
	ShardStateFormat format;
	ListCell   *lc;

	if (node->aggkind != AGGKIND_NORMAL || node->aggorder != NIL || node->aggdistinct != NIL ||
		node->agglevelsup != 0)
		return false;
	if (node->aggsplit == AGGSPLIT_INITIAL_SERIAL)
	{
		aggregate = shard_partial_aggregate(aggregate, &serialized);
		if (!OidIsValid(aggregate) || !callable(aggregate, cxt))
			return false;
		if (!shard_find_state_format(node, &format))
		{
			cxt->reason = "states of one of the aggregates are of a format that is not taken from shards";
			return false;
		}
		if (serialized)
		{
			int			needs = state_needs(node);

			if (!state_can_travel(node) ||
				((needs & SHARD_STATE_SENT_TEXT) && pg_get_client_encoding() != GetDatabaseEncoding()))
				return false;
			cxt->states |= needs;
		}
		else if (format.kind == STATE_ARRAY_VALUE && format.nelements == REGR_STATE_VALUES)
			cxt->states |= SHARD_STATE_REGR;
	}
	else if (node->aggsplit != AGGSPLIT_SIMPLE || !callable(aggregate, cxt))
		return false;

	write_function(aggregate, cxt);
	if (node->aggstar)
		appendStringInfoChar(cxt->buf, '*');
	foreach(lc, node->args)
	{
		TargetEntry *arg = lfirst_node(TargetEntry, lc);

		if (lc != list_head(node->args))
			appendStringInfoString(cxt->buf, ", ");
		if (node->aggvariadic && lnext(node->args, lc) == NULL)
			appendStringInfoString(cxt->buf, "VARIADIC ");
		if (!(serialized ? write_cast_argument(arg->expr, cxt, inner) : write_expr((Node *) arg->expr, cxt, inner)))
			return false;
	}
	appendStringInfoChar(cxt->buf, ')');
	if (node->aggfilter != NULL)
	{
		Origin		condition = {COLLATION_NONE, InvalidOid};

		appendStringInfoString(cxt->buf, " FILTER (WHERE ");
		if (!write_expr((Node *) node->aggfilter, cxt, &condition))
			return false;
		appendStringInfoChar(cxt->buf, ')');
	}
	return true;
}

static void
merge_origin(Origin *outer, Origin one)
{
	if (one.state > outer->state)
		*outer = one;
	else if (one.state == COLLATION_SAFE && outer->state == COLLATION_SAFE &&
			 one.collation != outer->collation)
	{
		/* any other collation beats the default one */
		if (outer->collation == DEFAULT_COLLATION_OID)
			outer->collation = one.collation;
		else if (one.collation != DEFAULT_COLLATION_OID)
			outer->state = COLLATION_UNSAFE;
	}
}

/* Is this a function whose only text is the name of a unit of time? */
static bool
ignores_collation(Node *node)
{
	if (!IsA(node, FuncExpr))
		return false;
	switch (((FuncExpr *) node)->funcid)
	{
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_INTERVAL:
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_TIME:
		case F_EXTRACT_TEXT_TIMETZ:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_INTERVAL:
		case F_DATE_PART_TEXT_DATE:
		case F_DATE_PART_TEXT_TIME:
		case F_DATE_PART_TEXT_TIMETZ:
		case F_DATE_PART_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_INTERVAL:
			return true;
		default:
			return false;
	}
}

/*
 * What compares by a collation must have it from a column. The origin is that
 * of the node's parts.
 */
static bool
has_input_collation(Node *node, Origin inner)
{
	Oid			input = exprInputCollation(node);

	return !OidIsValid(input) || ignores_collation(node) ||
		(inner.state == COLLATION_SAFE && input == inner.collation);
}

/* Where the collation of the node's value comes from. The origin given is that of its parts. */
static Origin
origin_of(Node *node, Origin inner)
{
	Origin		mine = {COLLATION_UNSAFE, exprCollation(node)};

	if (!OidIsValid(mine.collation))
		mine.state = COLLATION_NONE;
	else if (IsA(node, Var) ||
			 (inner.state == COLLATION_SAFE && inner.collation == mine.collation))
		mine.state = COLLATION_SAFE;
	else if (mine.collation == DEFAULT_COLLATION_OID)
		mine.state = COLLATION_NONE;
	return mine;
}

/* Write a node of any kind that has a form in SQL; *inner becomes the origin of its parts. */
static bool
write_node(Node *node, Context *cxt, Origin *inner)
{
	switch (nodeTag(node))
	{
		case T_Var:
			return write_var((Var *) node, cxt);
		case T_Const:
			return write_const((Const *) node, cxt);
		case T_Param:
			return write_param((Param *) node, cxt);
		case T_FuncExpr:
			return write_func((FuncExpr *) node, cxt, inner);
		case T_OpExpr:
		case T_DistinctExpr:
			return write_op((OpExpr *) node, cxt, inner);
		case T_NullIfExpr:
			return write_nullif((NullIfExpr *) node, cxt, inner);
		case T_ScalarArrayOpExpr:
			return write_scalar_array_op((ScalarArrayOpExpr *) node, cxt, inner);
		case T_RelabelType:
			{
				RelabelType *relabel = (RelabelType *) node;

				return write_cast(relabel->arg, relabel->resulttype, relabel->resulttypmod, cxt, inner);
			}
		case T_BoolExpr:
			return write_bool((BoolExpr *) node, cxt, inner);
		case T_BooleanTest:
			return write_bool_test((BooleanTest *) node, cxt, inner);
		case T_NullTest:
			return write_null_test((NullTest *) node, cxt, inner);
		case T_CaseExpr:
			return write_case((CaseExpr *) node, cxt, inner);
		case T_CoalesceExpr:
			return write_coalesce((CoalesceExpr *) node, cxt, inner);
		case T_ArrayExpr:
			return write_array((ArrayExpr *) node, cxt, inner);
		case T_Aggref:
			return write_aggref((Aggref *) node, cxt, inner);
		default:
			return false;
	}
}

/*
 * Write the expression, and merge where its collation comes from into *outer.
 * Returns false if it, or a part of it, is not for the shard; what is in the
 * buffer is then worth nothing.
 */
static bool
write_expr(Node *node, Context *cxt, Origin *outer)
{
	Origin		inner = {COLLATION_NONE, InvalidOid};

	check_stack_depth();

	if (!write_node(node, cxt, &inner) ||
		!shippable(exprType(node), TypeRelationId, cxt) || shard_names_object(exprType(node)) ||
		!has_input_collation(node, inner))
		return false;
	merge_origin(outer, origin_of(node, inner));
	return true;
}

/* An expression of its own: its value may be collated only by a column's collation. */
static bool
write_whole(Expr *expr, Context *cxt)
{
	Origin		origin = {COLLATION_NONE, InvalidOid};

	return write_expr((Node *) expr, cxt, &origin) &&
		origin.state != COLLATION_UNSAFE &&
		!contain_mutable_functions((Node *) expr);
}

/*
 * Settings under which values are written so that every server reads the same.
 * Returns the level for AtEOXact_GUC(true, …).
 */
int
shard_transmission_modes(void)
{
	int			level = NewGUCNestLevel();
	static const char *const modes[][2] = {
		{"datestyle", "ISO"},
		{"intervalstyle", "postgres"},
		{"extra_float_digits", "3"},
		{"search_path", "pg_catalog"}
	};

	for (int i = 0; i < lengthof(modes); i++)
		(void) set_config_option(modes[i][0], modes[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

static List *
shippable_extensions(Oid serverid)
{
	ForeignServer *server = GetForeignServer(serverid);
	List	   *result = NIL;
	ListCell   *lc,
			   *name;

	foreach(lc, server->options)
	{
		DefElem    *def = lfirst(lc);
		List	   *names;

		if (strcmp(def->defname, "extensions") != 0 ||
			!SplitIdentifierString(pstrdup(defGetString(def)), ',', &names))
			continue;
		foreach(name, names)
		{
			Oid			extension = get_extension_oid(lfirst(name), true);

			if (OidIsValid(extension))
				result = lappend_oid(result, extension);
		}
	}
	return result;
}

static void
write_table(Context *cxt)
{
	ForeignTable *table = GetForeignTable(cxt->relid);
	const char *schema = NULL;
	const char *name = NULL;
	ListCell   *lc;

	foreach(lc, table->options)
	{
		DefElem    *def = lfirst(lc);

		if (strcmp(def->defname, "schema_name") == 0)
			schema = defGetString(def);
		else if (strcmp(def->defname, "table_name") == 0)
			name = defGetString(def);
	}
	if (schema == NULL)
		schema = get_namespace_name(get_rel_namespace(cxt->relid));
	if (name == NULL)
		name = get_rel_name(cxt->relid);
	appendStringInfo(cxt->buf, " FROM %s.%s", quote_identifier(schema), quote_identifier(name));
}

/*
 * The columns to ask for: what is grouped by, aggregates, and columns of the
 * table that depend on what is grouped by. To group by these too changes
 * nothing. PostgreSQL computes the remainder from them.
 */
static List *
query_columns(PlannerInfo *root, PathTarget *target)
{
	Query	   *parse = root->parse;
	List	   *clauses = parse->groupClause != NIL || parse->hasAggs ? parse->groupClause : parse->distinctClause;
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(target, foreach_current_index(lc));

		if (ref && get_sortgroupref_clause_noerr(ref, clauses))
			columns = add_to_flat_tlist(columns, list_make1(lfirst(lc)));
		else
			columns = add_to_flat_tlist(columns, pull_var_clause(lfirst(lc),
																 PVC_INCLUDE_AGGREGATES |
																 PVC_RECURSE_WINDOWFUNCS |
																 PVC_INCLUDE_PLACEHOLDERS));
	}
	return columns;
}

/* Returns the reason why the shard cannot, or NULL with all of it in the buffer. */
static const char *
write_query(PlannerInfo *root, List *columns, Context *cxt)
{
	List	   *groups = NIL;
	ListCell   *lc;
	bool		first = true;

	if (columns == NIL)
		return "it returns no columns";

	appendStringInfoString(cxt->buf, "SELECT ");
	foreach(lc, columns)
	{
		TargetEntry *column = lfirst_node(TargetEntry, lc);

		if (!first)
			appendStringInfoString(cxt->buf, ", ");
		first = false;

		/* setrefs.c would take a parameter of the query for the column */
		if (IsA(column->expr, Param))
			return "a parameter is a column of it";
		if (!write_whole(column->expr, cxt))
			return cxt->reason != NULL ? cxt->reason :
				IsA(column->expr, Aggref) ? "the shard cannot run one of the aggregates" :
				"the shard cannot compute what it groups by";
		if (!IsA(column->expr, Aggref))
			groups = lappend_int(groups, column->resno);
	}

	write_table(cxt);

	first = true;
	foreach(lc, cxt->rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant)
			return "a condition does not depend on the table";
		appendStringInfoString(cxt->buf, first ? " WHERE " : " AND ");
		first = false;
		if (!write_whole(rinfo->clause, cxt))
			return "the shard cannot check one of the conditions";
	}

	first = true;
	foreach(lc, groups)
	{
		appendStringInfo(cxt->buf, first ? " GROUP BY %d" : ", %d", lfirst_int(lc));
		first = false;
	}

	/*
	 * Grouped by constants alone, there is no group without rows; without
	 * GROUP BY there is one.
	 */
	if (groups == NIL && root->parse->groupClause != NIL)
		appendStringInfoString(cxt->buf, " HAVING (count(*) > 0)");
	return NULL;
}

/*
 * Write the SQL that computes target from the rows of a foreign table that
 * meet its conditions. Returns NULL, or the reason why the shard cannot.
 */
const char *
shard_deparse(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, ShardQuery *query)
{
	Context		cxt = {.rel = rel};
	const char *reason;
	int			level;

	cxt.buf = makeStringInfo();
	cxt.relid = planner_rt_fetch(rel->relid, root)->relid;
	cxt.extensions = shippable_extensions(rel->serverid);

	level = shard_transmission_modes();
	query->columns = query_columns(root, target);
	reason = write_query(root, query->columns, &cxt);
	AtEOXact_GUC(true, level);

	query->sql = cxt.buf->data;
	query->params = cxt.params;
	query->states = cxt.states;
	query->verification = cxt.functions != NIL ? shard_verification(cxt.functions) : "";
	return reason;
}
