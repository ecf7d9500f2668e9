/*-------------------------------------------------------------------------
 *
 * parts.c
 *	  What CREATE TABLE … (LIKE …) leaves behind: parents, foreign keys,
 *	  triggers, rules, policies, and whether row security is on.
 *
 * The template's are read as the commands that make them, parsed, and run
 * for a new table with its name in place of the template's. The texts are the
 * same for every table, so that places in them, which stored expressions note,
 * are, too.
 *
 * A foreign key refers to the table that the template's refers to, one that
 * refers to the template itself to the new table; so do policies and rules
 * whose queries read or write the template. There the new table has the
 * template's name for an alias: columns are named by it, and stored queries,
 * which keep the names of their tables, are the same for every table.
 * Parents get the new table as another child, whose columns and constraints
 * are its own as well as inherited, as of any table that is made a child.
 * Constraints, triggers, rules and policies, whose names need to be unique in
 * their table only, keep them, as LIKE does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "rewrite/rewriteDefine.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "tables.h"

/* Whose names are changed for whose. */
typedef struct Renaming
{
	const char *namespace;
	const char *relname;
	bool		unqualified;	/* is that a temporary table, shown without
								 * its schema? */
	const char *new_namespace;
	const char *new_relname;
	bool		qualify_columns;	/* are columns of the template's name
									 * those of the table itself, and no
									 * alias's? */
} Renaming;

typedef void (*PartCallback) (HeapTuple tuple, Relation rel, Relation template, List **parts);

static int	settle(void);
static void scan_parts(Oid catalog, Oid index, AttrNumber column, Relation template,
					   PartCallback callback, List **parts);
static void add_parents(Relation template, List **parts);
static List *parents_of(Relation template);
static void add_key(HeapTuple tuple, Relation rel, Relation template, List **parts);
static Oid	constraint_table(Oid constraint);
static bool is_switched_off(Relation template, Oid constraint);
static void add_trigger(HeapTuple tuple, Relation rel, Relation template, List **parts);
static void add_rule(HeapTuple tuple, Relation rel, Relation template, List **parts);
static void add_policy(HeapTuple tuple, Relation rel, Relation template, List **parts);
static char *policy_roles(HeapTuple tuple, Relation rel);
static char *policy_expression(HeapTuple tuple, Relation rel, AttrNumber column, Relation template,
							   const char *prefix);
static void add_comment(const char *kind, Oid classid, Oid objid, const char *name,
						Relation template, List **parts);
static void add_command(const char *command, Oid object, List **parts);
static int	compare_parts(const ListCell *a, const ListCell *b);
static void add_row_security(Relation template, List **parts);
static char *table_name(Relation rel);
static void rename_statement(Node *statement, Renaming *renaming);
static void rename_rule(RuleStmt *rule, Renaming *renaming);
static bool rename_walker(Node *node, void *arg);
static bool rename_table(RangeVar *table, const Renaming *renaming);

/*
 * The template's parts, in the order in which they are created; palloc'd.
 * Raises 0A000 for what cannot be created. Expects a lock on the template.
 */
List *
template_parts_read(Oid template)
{
	List	   *parts = NIL;
	Relation	rel = table_open(template, NoLock);
	int			nestlevel = settle();

	add_parents(rel, &parts);
	scan_parts(ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid,
			   rel, add_key, &parts);
	scan_parts(TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid,
			   rel, add_trigger, &parts);
	scan_parts(RewriteRelationId, RewriteRelRulenameIndexId, Anum_pg_rewrite_ev_class,
			   rel, add_rule, &parts);
	scan_parts(PolicyRelationId, PolicyPolrelidPolnameIndexId, Anum_pg_policy_polrelid,
			   rel, add_policy, &parts);
	list_sort(parts, compare_parts);
	add_row_security(rel, &parts);

	AtEOXact_GUC(true, nestlevel);
	table_close(rel, NoLock);
	return parts;
}

/* Do the parts have expressions that may refer to their table? */
bool
template_parts_have_expressions(const List *parts)
{
	ListCell   *lc;

	foreach(lc, parts)
	{
		TemplatePart *part = lfirst(lc);

		if (IsA(part->statement, CreatePolicyStmt) || IsA(part->statement, RuleStmt) ||
			(IsA(part->statement, CreateTrigStmt) &&
			 ((CreateTrigStmt *) part->statement)->whenClause != NULL))
			return true;
	}
	return false;
}

/* Create them for another table. Raises what the commands raise. */
void
template_parts_create(const List *parts, Oid template, Oid relid)
{
	int			nestlevel = settle();
	Renaming	renaming = {
		get_namespace_name(get_rel_namespace(template)), get_rel_name(template),
		isAnyTempNamespace(get_rel_namespace(template)) && RelationIsVisible(template),
		get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)
	};
	ListCell   *lc;

	foreach(lc, parts)
	{
		TemplatePart *part = lfirst(lc);
		PlannedStmt *wrapper = makeNode(PlannedStmt);

		wrapper->commandType = CMD_UTILITY;
		wrapper->utilityStmt = copyObject(part->statement);
		wrapper->stmt_location = -1;
		rename_statement(wrapper->utilityStmt, &renaming);
		PushActiveSnapshot(GetTransactionSnapshot());
		ProcessUtility(wrapper, part->command, false, PROCESS_UTILITY_QUERY, NULL, NULL,
					   None_Receiver, NULL);
		PopActiveSnapshot();
		CommandCounterIncrement();
	}
	AtEOXact_GUC(true, nestlevel);
}

/*
 * Settings under which commands are read, shown and understood in the same
 * way, and name what is not pg_catalog's with its schema. Returns the level
 * to end by AtEOXact_GUC().
 */
static int
settle(void)
{
	int			nestlevel = NewGUCNestLevel();

	settle_definitions();
	settle_setting("search_path", "pg_catalog, pg_temp");
	return nestlevel;
}

void
refuse_template(Relation rel, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("template \"%s\" has %s, which a stamp cannot carry",
					RelationGetRelationName(rel), what),
			 errhint("%s", hint)));
}

/* ---- reading ---- */

/* Call back for the rows of a catalog about the template, which are in the order of their names. */
static void
scan_parts(Oid catalog, Oid index, AttrNumber column, Relation template, PartCallback callback,
		   List **parts)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(template)));
	scan = systable_beginscan(rel, index, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		callback(tuple, rel, template, parts);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * Make the table a child of each parent, in the template's order. Locks the
 * parents as that does, so that the names are theirs when the commands run;
 * but, other than that, not before the caller is known to be the owner.
 */
static void
add_parents(Relation template, List **parts)
{
	ListCell   *lc;

	/* of a partition there is none: LIKE makes ordinary tables */
	if (template->rd_rel->relispartition)
		return;
	foreach(lc, parents_of(template))
	{
		Oid			parent = lfirst_oid(lc);

		if (!class_owner_check(parent, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(parent)),
						   get_rel_name(parent));
		LockRelationOid(parent, ShareUpdateExclusiveLock);
		/* nobody drops or disinherits it while we hold a lock on the template */
		add_command(psprintf("ALTER TABLE ONLY %s INHERIT %s", table_name(template),
							 quote_qualified_identifier(get_namespace_name(get_rel_namespace(parent)),
														get_rel_name(parent))),
					InvalidOid, parts);
	}
}

/* OIDs, in the order in which the template inherits. */
static List *
parents_of(Relation template)
{
	Relation	rel = table_open(InheritsRelationId, AccessShareLock);
	Relation	index = index_open(InheritsRelidSeqnoIndexId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(template)));
	scan = systable_beginscan_ordered(rel, index, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
		result = lappend_oid(result, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return result;
}

/* A foreign key; that of a partition stands by itself here. */
static void
add_key(HeapTuple tuple, Relation rel, Relation template, List **parts)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
	AlterTableStmt *statement;
	Constraint *constraint;
	char	   *definition;

	if (form->contype != CONSTRAINT_FOREIGN)
		return;
	/* it belongs to the key to a partitioned table */
	if (OidIsValid(form->conparentid) &&
		constraint_table(form->conparentid) == RelationGetRelid(template))
		return;
	if (is_switched_off(template, form->oid))
		refuse_template(template,
						psprintf("foreign key \"%s\", which is switched off", NameStr(form->conname)),
						"Enable the triggers of the template.");

	definition = TextDatumGetCString(DirectFunctionCall1(pg_get_constraintdef,
														 ObjectIdGetDatum(form->oid)));
	add_command(psprintf("ALTER TABLE ONLY %s ADD CONSTRAINT %s %s", table_name(template),
						 quote_identifier(NameStr(form->conname)), definition), form->oid, parts);

	/* there is nothing in a new table that does not hold */
	statement = castNode(AlterTableStmt, ((TemplatePart *) llast(*parts))->statement);
	constraint = castNode(Constraint, linitial_node(AlterTableCmd, statement->cmds)->def);
#if PG_VERSION_NUM >= 180000
	if (constraint->is_enforced)
#endif
	{
		constraint->skip_validation = false;
		constraint->initially_valid = true;
	}
	add_comment("CONSTRAINT", ConstraintRelationId, form->oid, NameStr(form->conname), template, parts);
}

static Oid
constraint_table(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	result = ((Form_pg_constraint) GETSTRUCT(tuple))->conrelid;
	ReleaseSysCache(tuple);
	return result;
}

/* Whether some of the triggers that hold a foreign key are disabled. */
static bool
is_switched_off(Relation template, Oid constraint)
{
	TriggerDesc *triggers = template->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (trigger->tgconstraint == constraint && trigger->tgenabled != TRIGGER_FIRES_ON_ORIGIN)
			return true;
	}
	return false;
}

static void
add_trigger(HeapTuple tuple, Relation rel, Relation template, List **parts)
{
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
	const char *state = NULL;

	if (form->tgisinternal)
		return;
	add_command(TextDatumGetCString(DirectFunctionCall1(pg_get_triggerdef,
														ObjectIdGetDatum(form->oid))),
				form->oid, parts);
	switch (form->tgenabled)
	{
		case TRIGGER_DISABLED:
			state = "DISABLE";
			break;
		case TRIGGER_FIRES_ON_REPLICA:
			state = "ENABLE REPLICA";
			break;
		case TRIGGER_FIRES_ALWAYS:
			state = "ENABLE ALWAYS";
			break;
	}
	if (state != NULL)
		add_command(psprintf("ALTER TABLE ONLY %s %s TRIGGER %s", table_name(template), state,
							 quote_identifier(NameStr(form->tgname))), form->oid, parts);
	add_comment("TRIGGER", TriggerRelationId, form->oid, NameStr(form->tgname), template, parts);
}

static void
add_rule(HeapTuple tuple, Relation rel, Relation template, List **parts)
{
	Form_pg_rewrite form = (Form_pg_rewrite) GETSTRUCT(tuple);
	const char *state = NULL;

	add_command(TextDatumGetCString(DirectFunctionCall1(pg_get_ruledef,
														ObjectIdGetDatum(form->oid))),
				form->oid, parts);
	switch (form->ev_enabled)
	{
		case RULE_DISABLED:
			state = "DISABLE";
			break;
		case RULE_FIRES_ON_REPLICA:
			state = "ENABLE REPLICA";
			break;
		case RULE_FIRES_ALWAYS:
			state = "ENABLE ALWAYS";
			break;
	}
	if (state != NULL)
		add_command(psprintf("ALTER TABLE ONLY %s %s RULE %s", table_name(template), state,
							 quote_identifier(NameStr(form->rulename))), form->oid, parts);
	add_comment("RULE", RewriteRelationId, form->oid, NameStr(form->rulename), template, parts);
}

static void
add_policy(HeapTuple tuple, Relation rel, Relation template, List **parts)
{
	Form_pg_policy form = (Form_pg_policy) GETSTRUCT(tuple);
	const char *command = "ALL";

	switch (form->polcmd)
	{
		case ACL_SELECT_CHR:
			command = "SELECT";
			break;
		case ACL_INSERT_CHR:
			command = "INSERT";
			break;
		case ACL_UPDATE_CHR:
			command = "UPDATE";
			break;
		case ACL_DELETE_CHR:
			command = "DELETE";
			break;
	}
	add_command(psprintf("CREATE POLICY %s ON %s AS %s FOR %s TO %s%s%s",
						 quote_identifier(NameStr(form->polname)), table_name(template),
						 form->polpermissive ? "PERMISSIVE" : "RESTRICTIVE", command,
						 policy_roles(tuple, rel),
						 policy_expression(tuple, rel, Anum_pg_policy_polqual, template, "USING"),
						 policy_expression(tuple, rel, Anum_pg_policy_polwithcheck, template, "WITH CHECK")),
				form->oid, parts);
	add_comment("POLICY", PolicyRelationId, form->oid, NameStr(form->polname), template, parts);
}

static char *
policy_roles(HeapTuple tuple, Relation rel)
{
	StringInfoData names;
	bool		isnull;
	Datum	   *roles;
	int			nroles;

	initStringInfo(&names);
	deconstruct_array(DatumGetArrayTypeP(heap_getattr(tuple, Anum_pg_policy_polroles,
													  RelationGetDescr(rel), &isnull)),
					  OIDOID, sizeof(Oid), true, TYPALIGN_INT, &roles, NULL, &nroles);
	for (int i = 0; i < nroles; i++)
	{
		Oid			role = DatumGetObjectId(roles[i]);

		appendStringInfo(&names, "%s%s", i == 0 ? "" : ", ",
						 OidIsValid(role) ? quote_identifier(GetUserNameFromId(role, false)) : "PUBLIC");
	}
	return names.data;
}

/*
 * The expression with what precedes it, or nothing. Columns of the policy's
 * own table are those of the template's name; ruleutils.c gives no other
 * table that name.
 */
static char *
policy_expression(HeapTuple tuple, Relation rel, AttrNumber column, Relation template,
				  const char *prefix)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column, RelationGetDescr(rel), &isnull);
	List	   *context;

	if (isnull)
		return "";
	context = deparse_context_for(RelationGetRelationName(template), RelationGetRelid(template));
	return psprintf(" %s (%s)", prefix,
					deparse_expression(stringToNode(TextDatumGetCString(value)), context, false, false));
}

static void
add_row_security(Relation template, List **parts)
{
	if (template->rd_rel->relrowsecurity)
		add_command(psprintf("ALTER TABLE ONLY %s ENABLE ROW LEVEL SECURITY", table_name(template)),
					InvalidOid, parts);
	if (template->rd_rel->relforcerowsecurity)
		add_command(psprintf("ALTER TABLE ONLY %s FORCE ROW LEVEL SECURITY", table_name(template)),
					InvalidOid, parts);
}

static void
add_comment(const char *kind, Oid classid, Oid objid, const char *name, Relation template,
			List **parts)
{
	char	   *comment = GetComment(objid, classid, 0);

	if (comment != NULL)
		add_command(psprintf("COMMENT ON %s %s ON %s IS %s", kind, quote_identifier(name),
							 table_name(template), quote_literal_cstr(comment)), objid, parts);
}

static void
add_command(const char *command, Oid object, List **parts)
{
	TemplatePart *part = palloc(sizeof(TemplatePart));

	part->command = command;
	part->statement = linitial_node(RawStmt, pg_parse_query(command))->stmt;
	part->tag = CreateCommandTag(part->statement);
	part->object = object;
	part->number = list_length(*parts);
	*parts = lappend(*parts, part);
}

/* In the order in which the template's were created: it is visible. */
static int
compare_parts(const ListCell *a, const ListCell *b)
{
	const TemplatePart *one = lfirst(a);
	const TemplatePart *other = lfirst(b);

	if (one->object != other->object)
		return one->object < other->object ? -1 : 1;
	return one->number - other->number;
}

static char *
table_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
}

/* ---- creating ---- */

/* A statement that add_command() has been given, which is then about another table. */
static void
rename_statement(Node *statement, Renaming *renaming)
{
	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:
			{
				AlterTableStmt *alter = (AlterTableStmt *) statement;
				AlterTableCmd *command = linitial_node(AlterTableCmd, alter->cmds);

				rename_table(alter->relation, renaming);
				if (command->subtype == AT_AddConstraint)
					rename_table(castNode(Constraint, command->def)->pktable, renaming);
				break;
			}
		case T_CreateTrigStmt:
			{
				CreateTrigStmt *create = (CreateTrigStmt *) statement;

				rename_table(create->relation, renaming);
				if (create->constrrel != NULL)
					rename_table(create->constrrel, renaming);
				break;
			}
		case T_CreatePolicyStmt:
			{
				CreatePolicyStmt *create = (CreatePolicyStmt *) statement;

				rename_table(create->table, renaming);
				renaming->qualify_columns = true;
				rename_walker(create->qual, renaming);
				rename_walker(create->with_check, renaming);
				break;
			}
		case T_RuleStmt:
			rename_rule((RuleStmt *) statement, renaming);
			break;
		case T_CommentStmt:
			{
				/* schema, table, and the object's own name */
				List	   *names = castNode(List, ((CommentStmt *) statement)->object);

				Assert(list_length(names) == 3);
				linitial(names) = makeString(pstrdup(renaming->new_namespace));
				lsecond(names) = makeString(pstrdup(renaming->new_relname));
				break;
			}
		default:
			elog(ERROR, "unexpected command about a template: %d", (int) nodeTag(statement));
	}
}

/*
 * Columns of the template itself are those of OLD and NEW; every other name of
 * a table in the expressions is that of an alias, or of a table in the same
 * query, which gets it as an alias.
 */
static void
rename_rule(RuleStmt *rule, Renaming *renaming)
{
	ListCell   *lc;

	/* ruleutils.c shows a temporary table's as pg_temp */
	rule->relation->schemaname = pstrdup(renaming->new_namespace);
	rule->relation->relname = pstrdup(renaming->new_relname);

	renaming->qualify_columns = false;
	rename_walker(rule->whereClause, renaming);
	foreach(lc, rule->actions)
		if (!IsA(lfirst(lc), NotifyStmt))
		rename_walker(lfirst(lc), renaming);
}

/* An expression of a policy or a rule, or a query of a rule, with the queries in it. */
static bool
rename_walker(Node *node, void *arg)
{
	Renaming   *renaming = arg;

	if (node == NULL)
		return false;
	if (IsA(node, RangeVar))
	{
		RangeVar   *table = (RangeVar *) node;

		/* columns are those of the alias */
		if (rename_table(table, renaming) && table->alias == NULL)
			table->alias = makeAlias(renaming->relname, NIL);
	}
	/* FOR UPDATE OF names tables by their aliases */
	else if (IsA(node, LockingClause))
		return false;
	else if (IsA(node, CommonTableExpr) && renaming->unqualified &&
			 strcmp(((CommonTableExpr *) node)->ctename, renaming->relname) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a query of temporary table \"%s\" has a WITH clause of the table's name",
						renaming->relname),
				 errhint("Use a permanent table as template.")));
	else if (IsA(node, ColumnRef) && renaming->qualify_columns)
	{
		List	   *fields = ((ColumnRef *) node)->fields;

		/* with the schema it is no other table's alias */
		if (list_length(fields) == 2 && strcmp(strVal(linitial(fields)), renaming->relname) == 0)
			((ColumnRef *) node)->fields =
				list_make3(makeString(pstrdup(renaming->new_namespace)),
						   makeString(pstrdup(renaming->new_relname)), lsecond(fields));
	}
	return raw_expression_tree_walker(node, rename_walker, arg);
}

/* Whether the table is the template. */
static bool
rename_table(RangeVar *table, const Renaming *renaming)
{
	if (strcmp(table->relname, renaming->relname) != 0 ||
		(table->schemaname == NULL ? !renaming->unqualified :
		 strcmp(table->schemaname, renaming->namespace) != 0))
		return false;
	table->schemaname = pstrdup(renaming->new_namespace);
	table->relname = pstrdup(renaming->new_relname);
	return true;
}
