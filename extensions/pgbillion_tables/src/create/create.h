/*-------------------------------------------------------------------------
 *
 * create.h
 *	  Creating tables by writing their catalog rows in bulk.
 *
 * The way of a call of pgbillion_tables.create_tables():
 *
 *	create_tables.c	checks the arguments, drives the others, batch by batch
 *	template_tree.c	the template with its partitions, and has the first tables
 *					made after them
 *	prototype.c		has PostgreSQL make one of these, by ordinary DDL
 *	parts.c			the same for what LIKE does not copy: parents, foreign
 *					keys, triggers, rules, row security
 *	progress.c		the view of it all for other sessions
 *
 * See stamp/stamp.h for how the others are made of these.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_CREATE_H
#define PGBILLION_CREATE_H

#include "nodes/pg_list.h"
#include "tcop/cmdtag.h"
#include "utils/rel.h"

#include "stamp/stamp.h"

/* ---- template_tree.c ---- */

/* A template table: the one that was named, or a partition below it. */
typedef struct TreeNode
{
	Oid			template;
	char	   *namespace;		/* names as they are in the parts */
	char	   *relname;
	bool		temporary;		/* shown as in pg_temp */
	bool		unqualified;	/* … or without a schema? */
	int			parent;			/* the node that it is a partition of, or -1 */
	bool		is_partitioned;
	const char *suffix;			/* of names, behind the root's; "" for the
								 * root */
	List	   *parts;			/* TemplateParts, with the one that attaches
								 * it */
	List	   *late_parts;		/* those of what it has from its parent */
} TreeNode;

/* The template before its partitions, each of these before its own. */
typedef struct TemplateTree
{
	int			nnodes;
	TreeNode   *nodes;
} TemplateTree;

extern TemplateTree *tree_read(Oid template);
extern Bitmapset *tree_tags(const TemplateTree *tree);
extern void tree_check_names(const TemplateTree *tree, const NameFormat *format, int64 last);
extern void tree_create(const TemplateTree *tree, const char *relname, Oid namespaceid,
						Oid tablespace, const char *access_method, Oid *created);
extern StampTable *tree_created(const TemplateTree *tree, const Oid *created);

/* ---- prototype.c ---- */

extern void template_lock(Oid template);
extern Oid	prototype_create(const TreeNode *node, const char *relname, Oid namespaceid,
							 Oid tablespace, const char *access_method);
extern void prototypes_own_sequences(const TemplateTree *tree, const Oid *created);

/* ---- parts.c ---- */

/* A command about the template. */
typedef struct TemplatePart
{
	const char *command;
	Node	   *statement;
	CommandTag	tag;
	Oid			object;			/* that it creates, or changes */
	int			number;
} TemplatePart;

extern void template_refuse(Relation rel, const char *what, const char *hint);
extern void template_parts_read(TreeNode *node);
extern void template_check(const TreeNode *node);
extern void template_parts_create(const TemplateTree *tree, const Oid *created);
extern char *template_created_name(const TemplateTree *tree, int node, Oid created);

/* ---- progress.c ---- */

extern void create_progress_start(Oid template, int64 total);
extern void create_progress_update(int64 done);
extern void create_progress_end(void);

#endif							/* PGBILLION_CREATE_H */
