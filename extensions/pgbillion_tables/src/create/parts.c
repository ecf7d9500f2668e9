/*-------------------------------------------------------------------------
 *
 * parts.c
 *	  What CREATE TABLE … (LIKE …) leaves behind: parents, foreign keys,
 *	  triggers, rules, policies, whether row security is on, and what a
 *	  partition is of.
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
 * which keep the names of their tables, are the same for every table. Of a
 * template with partitions that is so for each of them.
 * What a partition has from its parent it gets as it is attached; only whether
 * such a trigger is enabled is its own, and comments.
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
#include "catalog/partition.h"
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
#include "nodes/plannodes.h"
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
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "create/create.h"

/* Whose name is changed for whose. */
typedef struct RenamedTable
{
	const TreeNode *node;
	const char *new_namespace;
	const char *new_relname;
} RenamedTable;

typedef struct Renaming
{
	int			ntables;
	RenamedTable *tables;
	const RenamedTable *about;	/* the one that a command is about */
	const RenamedTable *parent; /* what it is attached to, or NULL */
	bool		qualify_columns;	/* are columns of the template's name
									 * those of the table itself, and no
									 * alias's? */
} Renaming;

typedef void (*PartCallback) (HeapTuple tuple, Relation rel, Relation template, TreeNode *node);

static void create_parts(const List *parts, const TemplateTree *tree, const Oid *created,
						 int node, Renaming *renaming);
static void scan_parts(Oid catalog, Oid index, AttrNumber column, Relation template,
					   PartCallback callback, TreeNode *node);
static void add_parents(Relation template, List **parts);
static List *parents_of(Relation template);
static void add_key(HeapTuple tuple, Relation rel, Relation template, TreeNode *node);
static Oid	constraint_table(Oid constraint);
static bool is_switched_off(Relation template, Oid constraint);
static void add_trigger(HeapTuple tuple, Relation rel, Relation template, TreeNode *node);
static void add_rule(HeapTuple tuple, Relation rel, Relation template, TreeNode *node);
static void add_policy(HeapTuple tuple, Relation rel, Relation template, TreeNode *node);
static char *policy_roles(HeapTuple tuple, Relation rel);
static char *policy_expression(HeapTuple tuple, Relation rel, AttrNumber column, Relation template,
							   const char *prefix);
static void add_comment(const char *kind, Oid classid, Oid objid, const char *name,
						Relation template, List **parts);
static void add_command(const char *command, Oid object, List **parts);
static int	compare_parts(const ListCell *a, const ListCell *b);
static void add_row_security(Relation template, List **parts);
static void add_attachment(Relation template, List **parts);
static void rename_statement(Node *statement, Renaming *renaming);
static void rename_rule(RuleStmt *rule, Renaming *renaming);
static bool rename_walker(Node *node, void *arg);
static const RenamedTable *rename_table(RangeVar *table, const Renaming *renaming);
static void rename_to(RangeVar *table, const RenamedTable *renamed);

/*
 * Read the parts of a template, in the order in which they are created, into
 * its node; palloc'd. Raises 0A000 for what cannot be created. Expects a lock on
 * the template, and on the parent of a partition.
 */
void
template_parts_read(TreeNode *node)
{
	Relation	rel = table_open(node->template, NoLock);
	int			nestlevel = ddl_settle_commands();

	node->namespace = get_namespace_name(RelationGetNamespace(rel));
	node->relname = pstrdup(RelationGetRelationName(rel));
	node->temporary = isAnyTempNamespace(RelationGetNamespace(rel));
	node->unqualified = node->temporary && RelationIsVisible(node->template);

	add_parents(rel, &node->parts);
	scan_parts(ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid,
			   rel, add_key, node);
	scan_parts(TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid,
			   rel, add_trigger, node);
	scan_parts(RewriteRelationId, RewriteRelRulenameIndexId, Anum_pg_rewrite_ev_class,
			   rel, add_rule, node);
	scan_parts(PolicyRelationId, PolicyPolrelidPolnameIndexId, Anum_pg_policy_polrelid,
			   rel, add_policy, node);
	list_sort(node->parts, compare_parts);
	add_row_security(rel, &node->parts);
	if (node->parent >= 0)
		add_attachment(rel, &node->parts);

	AtEOXact_GUC(true, nestlevel);
	table_close(rel, NoLock);
}

/*
 * Raises 55000 if a template is gone, which an event trigger can do, and 40001
 * if it has another name than when its parts were read: a schema can be
 * renamed whatever locks others hold on its tables.
 */
void
template_check(const TreeNode *node)
{
	char	   *namespace;

	AcceptInvalidationMessages();
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(node->template)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("template \"%s\" was dropped while tables were being created", node->relname)));
	namespace = get_namespace_name(get_rel_namespace(node->template));
	if (namespace == NULL || strcmp(namespace, node->namespace) != 0 ||
		strcmp(get_rel_name(node->template), node->relname) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("template \"%s\" was renamed while tables were being created", node->relname),
				 errhint("Try again.")));
	pfree(namespace);
}

/*
 * Create the parts of all nodes for the tables made after them, created[].
 * Raises what the commands raise.
 */
void
template_parts_create(const TemplateTree *tree, const Oid *created)
{
	int			nestlevel = ddl_settle_commands();
	Renaming	renaming = {tree->nnodes, palloc(tree->nnodes * sizeof(RenamedTable))};

	for (int i = 0; i < tree->nnodes; i++)
	{
		char	   *name = template_created_name(tree, i, created[i]);

		renaming.tables[i] = (RenamedTable)
		{
			&tree->nodes[i], get_namespace_name(get_rel_namespace(created[i])), name
		};
	}
	for (int i = 0; i < tree->nnodes; i++)
		create_parts(tree->nodes[i].parts, tree, created, i, &renaming);
	for (int i = 0; i < tree->nnodes; i++)
		create_parts(tree->nodes[i].late_parts, tree, created, i, &renaming);
	AtEOXact_GUC(true, nestlevel);
}

static void
create_parts(const List *parts, const TemplateTree *tree, const Oid *created, int node,
			 Renaming *renaming)
{
	int			parent = tree->nodes[node].parent;
	ListCell   *lc;

	renaming->about = &renaming->tables[node];
	renaming->parent = parent >= 0 ? &renaming->tables[parent] : NULL;
	foreach(lc, parts)
	{
		TemplatePart *part = lfirst(lc);
		Node	   *statement = copyObject(part->statement);

		/* an event trigger may have dropped one */
		template_check(&tree->nodes[node]);
		pfree(template_created_name(tree, node, created[node]));
		if (parent >= 0)
			pfree(template_created_name(tree, parent, created[parent]));
		rename_statement(statement, renaming);
		ddl_run_statement(statement, part->command);
	}
}

/* The name of the table made after a node; palloc'd. Raises 55000 if it is gone again: event triggers can do that. */
char *
template_created_name(const TemplateTree *tree, int node, Oid created)
{
	char	   *name = get_rel_name(created);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a table like \"%s\" was dropped while others were being created",
						tree->nodes[node].relname)));
	return name;
}

void
template_refuse(Relation rel, const char *what, const char *hint)
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
		   TreeNode *node)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(template)));
	scan = systable_beginscan(rel, index, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		callback(tuple, rel, template, node);
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
		add_command(psprintf("ALTER TABLE ONLY %s INHERIT %s", ddl_table_name(template),
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
add_key(HeapTuple tuple, Relation rel, Relation template, TreeNode *node)
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
		template_refuse(template,
						psprintf("foreign key \"%s\", which is switched off", NameStr(form->conname)),
						"Enable the triggers of the template.");

	/*
	 * one of another name than the parent's was here before, and will be
	 * again
	 */
	if (node->parent >= 0 && OidIsValid(form->conparentid) &&
		strcmp(NameStr(form->conname), get_constraint_name(form->conparentid)) == 0)
	{
		add_comment("CONSTRAINT", ConstraintRelationId, form->oid, NameStr(form->conname), template,
					&node->late_parts);
		return;
	}

	definition = TextDatumGetCString(DirectFunctionCall1(pg_get_constraintdef,
														 ObjectIdGetDatum(form->oid)));

	/*
	 * without ONLY, which a partitioned table does not take; nothing is below
	 * the new one yet
	 */
	add_command(psprintf("ALTER TABLE %s ADD CONSTRAINT %s %s", ddl_table_name(template),
						 quote_identifier(NameStr(form->conname)), definition), form->oid, &node->parts);

	/* there is nothing in a new table that does not hold */
	statement = castNode(AlterTableStmt, ((TemplatePart *) llast(node->parts))->statement);
	constraint = castNode(Constraint, linitial_node(AlterTableCmd, statement->cmds)->def);
#if PG_VERSION_NUM >= 180000
	if (constraint->is_enforced)
#endif
	{
		constraint->skip_validation = false;
		constraint->initially_valid = true;
	}
	add_comment("CONSTRAINT", ConstraintRelationId, form->oid, NameStr(form->conname), template,
				&node->parts);
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
add_trigger(HeapTuple tuple, Relation rel, Relation template, TreeNode *node)
{
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
	bool		inherited = node->parent >= 0 && OidIsValid(form->tgparentid);
	List	  **parts = inherited ? &node->late_parts : &node->parts;

	/* a parent's may be in another state */
	const char *state = inherited ? "ENABLE" : NULL;

	if (form->tgisinternal)
		return;
	if (!inherited)
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
		add_command(psprintf("ALTER TABLE ONLY %s %s TRIGGER %s", ddl_table_name(template), state,
							 quote_identifier(NameStr(form->tgname))), form->oid, parts);
	add_comment("TRIGGER", TriggerRelationId, form->oid, NameStr(form->tgname), template, parts);
}

static void
add_rule(HeapTuple tuple, Relation rel, Relation template, TreeNode *node)
{
	Form_pg_rewrite form = (Form_pg_rewrite) GETSTRUCT(tuple);
	const char *state = NULL;

	add_command(TextDatumGetCString(DirectFunctionCall1(pg_get_ruledef,
														ObjectIdGetDatum(form->oid))),
				form->oid, &node->parts);
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
		add_command(psprintf("ALTER TABLE ONLY %s %s RULE %s", ddl_table_name(template), state,
							 quote_identifier(NameStr(form->rulename))), form->oid, &node->parts);
	add_comment("RULE", RewriteRelationId, form->oid, NameStr(form->rulename), template, &node->parts);
}

static void
add_policy(HeapTuple tuple, Relation rel, Relation template, TreeNode *node)
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
						 quote_identifier(NameStr(form->polname)), ddl_table_name(template),
						 form->polpermissive ? "PERMISSIVE" : "RESTRICTIVE", command,
						 policy_roles(tuple, rel),
						 policy_expression(tuple, rel, Anum_pg_policy_polqual, template, "USING"),
						 policy_expression(tuple, rel, Anum_pg_policy_polwithcheck, template, "WITH CHECK")),
				form->oid, &node->parts);
	add_comment("POLICY", PolicyRelationId, form->oid, NameStr(form->polname), template, &node->parts);
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
		add_command(psprintf("ALTER TABLE ONLY %s ENABLE ROW LEVEL SECURITY", ddl_table_name(template)),
					InvalidOid, parts);
	if (template->rd_rel->relforcerowsecurity)
		add_command(psprintf("ALTER TABLE ONLY %s FORCE ROW LEVEL SECURITY", ddl_table_name(template)),
					InvalidOid, parts);
}

/* Last, as what it has from its parent comes by it. */
static void
add_attachment(Relation template, List **parts)
{
	Oid			relid = RelationGetRelid(template);
	Relation	parent = table_open(get_partition_parent(relid, true), NoLock);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		isnull;
	Datum		bound;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	bound = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	if (isnull)
		elog(ERROR, "partition \"%s\" has no bound", RelationGetRelationName(template));
	bound = DirectFunctionCall2(pg_get_expr, bound, ObjectIdGetDatum(relid));
	add_command(psprintf("ALTER TABLE %s ATTACH PARTITION %s %s", ddl_table_name(parent),
						 ddl_table_name(template), TextDatumGetCString(bound)), InvalidOid, parts);
	ReleaseSysCache(tuple);
	table_close(parent, NoLock);
}

static void
add_comment(const char *kind, Oid classid, Oid objid, const char *name, Relation template,
			List **parts)
{
	char	   *comment = GetComment(objid, classid, 0);

	if (comment != NULL)
		add_command(psprintf("COMMENT ON %s %s ON %s IS %s", kind, quote_identifier(name),
							 ddl_table_name(template), quote_literal_cstr(comment)), objid, parts);
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

				if (command->subtype == AT_AttachPartition)
				{
					rename_to(alter->relation, renaming->parent);
					rename_to(castNode(PartitionCmd, command->def)->name, renaming->about);
					break;
				}
				rename_to(alter->relation, renaming->about);
				if (command->subtype == AT_AddConstraint)
					rename_table(castNode(Constraint, command->def)->pktable, renaming);
				break;
			}
		case T_CreateTrigStmt:
			{
				CreateTrigStmt *create = (CreateTrigStmt *) statement;

				rename_to(create->relation, renaming->about);
				if (create->constrrel != NULL)
					rename_table(create->constrrel, renaming);
				break;
			}
		case T_CreatePolicyStmt:
			{
				CreatePolicyStmt *create = (CreatePolicyStmt *) statement;

				rename_to(create->table, renaming->about);
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
				linitial(names) = makeString(pstrdup(renaming->about->new_namespace));
				lsecond(names) = makeString(pstrdup(renaming->about->new_relname));
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
	rename_to(rule->relation, renaming->about);

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
		const RenamedTable *renamed = rename_table(table, renaming);

		/* columns are those of the alias */
		if (renamed != NULL && table->alias == NULL)
			table->alias = makeAlias(renamed->node->relname, NIL);
	}
	/* FOR UPDATE OF names tables by their aliases */
	else if (IsA(node, LockingClause))
		return false;
	else if (IsA(node, CommonTableExpr))
	{
		const char *name = ((CommonTableExpr *) node)->ctename;

		for (int i = 0; i < renaming->ntables; i++)
			if (renaming->tables[i].node->unqualified &&
				strcmp(name, renaming->tables[i].node->relname) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("a query of temporary table \"%s\" has a WITH clause of the table's name",
								name),
						 errhint("Use a permanent table as template.")));
	}
	else if (IsA(node, ColumnRef) && renaming->qualify_columns)
	{
		List	   *fields = ((ColumnRef *) node)->fields;

		/* with the schema it is no other table's alias */
		if (list_length(fields) == 2 && strcmp(strVal(linitial(fields)), renaming->about->node->relname) == 0)
			((ColumnRef *) node)->fields =
				list_make3(makeString(pstrdup(renaming->about->new_namespace)),
						   makeString(pstrdup(renaming->about->new_relname)), lsecond(fields));
	}
	return raw_expression_tree_walker(node, rename_walker, arg);
}

/* The table that it was the name of; NULL if it is none of the template's. */
static const RenamedTable *
rename_table(RangeVar *table, const Renaming *renaming)
{
	for (int i = 0; i < renaming->ntables; i++)
	{
		const TreeNode *node = renaming->tables[i].node;

		if (strcmp(table->relname, node->relname) == 0 &&
			(table->schemaname == NULL ? node->unqualified :
			 strcmp(table->schemaname, node->namespace) == 0 ||
			 (node->temporary && strcmp(table->schemaname, "pg_temp") == 0)))
		{
			rename_to(table, &renaming->tables[i]);
			return &renaming->tables[i];
		}
	}
	return NULL;
}

static void
rename_to(RangeVar *table, const RenamedTable *renamed)
{
	table->schemaname = pstrdup(renamed->new_namespace);
	table->relname = pstrdup(renamed->new_relname);
}
