/*-------------------------------------------------------------------------
 *
 * template_tree.c
 *	  A template with its partitions, and tables made after it by commands.
 *
 * An ordinary table is a tree of one node. The tables of a tree are made one by
 * one, each like its own template, a partition before its own partitions; then
 * they get sequences; then, in the same order, what else their templates have,
 * and the partitions are attached. What a partition has from its parent comes
 * by that, under the names that PostgreSQL gives it.
 *
 * A partition named TEMPLATE_x of a template named TEMPLATE becomes NAME_x;
 * one of another name becomes NAME_ with that behind it. So the names of a
 * tree all begin with the first one's, as name_registry.c expects.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lockdefs.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "create/create.h"

static void read_node(TemplateTree *tree, Oid template, int parent);
static void check_partition(Relation parent, Oid partition);
static void check_indexes(Relation rel);
static const char *suffix_of(const char *relname, const char *template);
static char *node_name(const TreeNode *node, const char *relname);

/*
 * The template, which template_lock() has locked, with its partitions, which
 * get AccessShareLock; palloc'd. Raises 0A000 for what cannot be copied, 42501
 * where the caller may not read a partition.
 */
TemplateTree *
tree_read(Oid template)
{
	TemplateTree *tree = palloc0(sizeof(TemplateTree));

	read_node(tree, template, -1);
	/* the same while all were read? */
	for (int i = 0; i < tree->nnodes; i++)
		template_check(&tree->nodes[i]);
	return tree;
}

/* Append a template and what is below it. */
static void
read_node(TemplateTree *tree, Oid template, int parent)
{
	TreeNode	node = {.template = template,.parent = parent};
	int			number = tree->nnodes;
	Relation	rel = table_open(template, NoLock);
	List	   *partitions = NIL;
	ListCell   *lc;

	check_stack_depth();
	node.is_partitioned = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	node.suffix = parent >= 0 ?
		suffix_of(RelationGetRelationName(rel), tree->nodes[0].relname) : "";
	if (node.is_partitioned)
	{
		bool		detached = false;

		partitions = find_inheritance_children_extended(template, false, AccessShareLock,
														&detached, NULL);
		if (detached)
			template_refuse(rel, "a partition that is being detached",
							"Finish that with ALTER TABLE ... DETACH PARTITION ... FINALIZE.");
		check_indexes(rel);
	}
	template_parts_read(&node);

	/* grown by powers of two */
	if ((tree->nnodes & (tree->nnodes - 1)) == 0)
		tree->nodes = tree->nodes == NULL ? palloc(sizeof(TreeNode)) :
			repalloc(tree->nodes, tree->nnodes * 2 * sizeof(TreeNode));
	tree->nodes[tree->nnodes++] = node;

	foreach(lc, partitions)
	{
		CHECK_FOR_INTERRUPTS();
		check_partition(rel, lfirst_oid(lc));
		read_node(tree, lfirst_oid(lc), number);
	}
	table_close(rel, NoLock);
}

static void
check_partition(Relation parent, Oid partition)
{
	AclResult	aclresult = pg_class_aclcheck(partition, GetUserId(), ACL_SELECT);

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, get_relkind_objtype(get_rel_relkind(partition)),
					   get_rel_name(partition));
	if (get_rel_relkind(partition) == RELKIND_FOREIGN_TABLE)
		template_refuse(parent, psprintf("foreign table \"%s\" as a partition", get_rel_name(partition)),
						"Detach it from the template.");
}

/* What is created is valid, because each partition has its part of the index. */
static void
check_indexes(Relation rel)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		bool		valid;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for index %u", lfirst_oid(lc));
		valid = ((Form_pg_index) GETSTRUCT(tuple))->indisvalid;
		ReleaseSysCache(tuple);
		if (!valid)
			template_refuse(rel, psprintf("index \"%s\", which is not valid", get_rel_name(lfirst_oid(lc))),
							"Attach an index of each partition to it, or drop it.");
	}
}

/* What names of the partition's copies have behind the name of the first table. */
static const char *
suffix_of(const char *relname, const char *template)
{
	Size		length = strlen(template);

	if (strncmp(relname, template, length) == 0 && relname[length] == '_')
		return pstrdup(relname + length);
	return psprintf("_%s", relname);
}

/* The tags of the commands that make a table after the tree. */
Bitmapset *
tree_tags(const TemplateTree *tree)
{
	static const CommandTag tags[] = {
		CMDTAG_CREATE_TABLE, CMDTAG_CREATE_INDEX, CMDTAG_CREATE_SEQUENCE, CMDTAG_COMMENT
	};
	Bitmapset  *result = NULL;

	for (int i = 0; i < lengthof(tags); i++)
		result = bms_add_member(result, tags[i]);
	for (int i = 0; i < tree->nnodes; i++)
	{
		List	   *parts = list_concat_copy(tree->nodes[i].parts, tree->nodes[i].late_parts);
		ListCell   *lc;

		foreach(lc, parts)
			result = bms_add_member(result, ((TemplatePart *) lfirst(lc))->tag);
	}
	return result;
}

/*
 * Raises 42622 if the name of a partition in the last of the trees is too long
 * (the first ones' are not longer), 42P07 if two would have the same.
 */
void
tree_check_names(const TemplateTree *tree, const NameFormat *format, int64 last)
{
	NameData	relname;

	name_format_apply(format, last, &relname);
	for (int i = 1; i < tree->nnodes; i++)
	{
		Size		length = strlen(NameStr(relname)) + strlen(tree->nodes[i].suffix);

		if (length >= NAMEDATALEN)
			ereport(ERROR,
					(errcode(ERRCODE_NAME_TOO_LONG),
					 errmsg("table name \"%s%s\" is too long", NameStr(relname), tree->nodes[i].suffix),
					 errdetail("It has %zu bytes; a name can have %d.", length, NAMEDATALEN - 1)));
		for (int j = 1; j < i; j++)
			if (strcmp(tree->nodes[i].suffix, tree->nodes[j].suffix) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_TABLE),
						 errmsg("partitions \"%s\" and \"%s\" would both be named \"%s%s\"",
								tree->nodes[j].relname, tree->nodes[i].relname, NameStr(relname),
								tree->nodes[i].suffix),
						 errhint("Rename one of them.")));
	}
}

/*
 * Make tables after a tree, the first of which is `relname`. Arguments and
 * errors as those of prototype_create(); created[] are the tables, as the nodes.
 */
void
tree_create(const TemplateTree *tree, const char *relname, Oid namespaceid, Oid tablespace,
			const char *access_method, Oid *created)
{
	for (int i = 0; i < tree->nnodes; i++)
		created[i] = prototype_create(&tree->nodes[i], node_name(&tree->nodes[i], relname),
									  namespaceid, tablespace, access_method);
	prototypes_own_sequences(tree, created);
	template_parts_create(tree, created);
}

static char *
node_name(const TreeNode *node, const char *relname)
{
	return psprintf("%s%s", relname, node->suffix);
}

/*
 * What a stamp is made of, of tables made after the tree; palloc'd. Raises 55000
 * where one is gone, or has been renamed or moved: names have been checked, and
 * are looked up, as they are to be.
 */
StampTable *
tree_created(const TemplateTree *tree, const Oid *created)
{
	StampTable *tables = palloc0(tree->nnodes * sizeof(StampTable));

	for (int i = 0; i < tree->nnodes; i++)
	{
		StampTable *table = &tables[i];

		table->relid = created[i];
		table->template = tree->nodes[i].template;
		table->relname = template_created_name(tree, i, created[i]);
		if (get_rel_namespace(table->relid) != get_rel_namespace(created[0]) ||
			strcmp(table->relname, psprintf("%s%s", tables[0].relname, tree->nodes[i].suffix)) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was renamed or moved while tables were being created",
							table->relname)));
	}
	return tables;
}
