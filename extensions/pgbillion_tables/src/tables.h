/*-------------------------------------------------------------------------
 *
 * tables.h
 *	  Creating tables by writing their catalog rows in bulk.
 *
 * The way of a call of pgbillion_tables.create_tables():
 *
 *	create_tables.c	checks the arguments, drives the others, batch by batch
 *	tree.c			the template with its partitions, and has the first tables
 *					made after them
 *	prototype.c		has PostgreSQL make one of these, by ordinary DDL
 *	parts.c			the same for what LIKE does not copy: parents, foreign
 *					keys, triggers, rules, row security
 *	stamp.c			compiles that table's catalog rows to a stamp: images
 *					of the rows, and the places where an OID, a name, a file
 *					number or a tablespace goes
 *	stamp_batch.c	writes the others' rows from it
 *	naming.c		the names a table and its parts get, as PostgreSQL
 *					chooses them
 *	oids.c			ranges of unused OIDs
 *	files.c			the files, copied from those of the first table
 *	bulk_insert.c	many rows at a time into a catalog
 *	index_run.c		sorted runs of entries into its indexes
 *	leaf_split.c	pages of those split where a run goes on
 *	settings.c		those under which definitions are shown and read again
 *	progress.c		the view of it all for other sessions
 *
 * and the way back, of pgbillion_tables.drop_tables():
 *
 *	drop_tables.c	checks and locks the tables, drives the others
 *	family.c		finds the catalog rows of many tables and their parts
 *	bulk_delete.c	many rows at a time out of a catalog
 *
 * list_tables.c lists what is there. clone/clone.h is the map of whole schemas.
 *
 * Because the stamp is made from rows that PostgreSQL wrote a moment before,
 * in the same transaction, whatever PostgreSQL records about a table (in this
 * major version, for this user, under these default privileges) is what the
 * stamped tables get.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_CREATE_TABLES_H
#define PGBILLION_CREATE_TABLES_H

#include "access/htup.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "tcop/cmdtag.h"
#include "utils/hsearch.h"
#include "utils/rel.h"

#include "compat.h"

/* ---- create_tables.c ---- */

extern void create_tables_init(void);
extern void check_observers(bool drop, const List *parts);
extern bool is_observed(void);
extern void note_stamped(void);

/* ---- naming.c ---- */

/* A parsed name_format: prefix, one number, suffix. */
typedef struct NameFormat
{
	char	   *prefix;
	char	   *suffix;
	int			base;			/* 8, 10 or 16 */
	bool		upper;			/* hexadecimal digits in upper case? */
	bool		zero_pad;		/* pad with zeros rather than spaces? */
	int			width;			/* least number of characters of the number */
} NameFormat;

/* What the name of an object is made from. */
typedef enum StampNameKind
{
	STAMP_NAME_TABLE,			/* a table's own, and its row type's: the
								 * first's with the addition */
	STAMP_NAME_ARRAY_TYPE,		/* PostgreSQL's makeArrayTypeName() */
	STAMP_NAME_TOAST,			/* pg_toast_OID */
	STAMP_NAME_TOAST_INDEX,		/* pg_toast_OID_index */
	STAMP_NAME_RELATION,		/* PostgreSQL's ChooseRelationName() */
	STAMP_NAME_INDEX_CONSTRAINT,	/* the same, of an index with a constraint */
	STAMP_NAME_CONSTRAINT,		/* PostgreSQL's ChooseConstraintName() */
	STAMP_NAME_STATISTICS,		/* PostgreSQL's ChooseExtendedStatisticName() */
	STAMP_NAME_TRIGGER			/* LABEL_OID, of PostgreSQL's own triggers */
} StampNameKind;

typedef struct StampName
{
	StampNameKind kind;
	const char *base;			/* makeObjectName()'s first name; NULL for the
								 * table's, or this one of the names: */
	int			base_name;		/* … not 0 */
	const char *addition;		/* the second, or NULL */
	const char *label;			/* its label, or NULL; "" for numbers only */
	int			table;			/* which of the names is its table's */
	int			object;			/* the stamp's object whose name it is */
} StampName;

/* Which names are taken; see naming.c. */
typedef struct NameRegistry NameRegistry;

extern NameFormat *name_format_parse(const char *format);
extern void name_format_apply(const NameFormat *format, int64 number, NameData *name);
extern void name_format_check_lengths(const NameFormat *format, int64 first, int64 last);
extern void check_numbers(int64 first, int64 count, const char *what);

extern NameRegistry *name_registry_create(const NameFormat *format, int64 first, int64 last,
										  Oid namespaceid);
extern void name_registry_claim_table(NameRegistry *registry, const char *relname);
extern void name_registry_choose(NameRegistry *registry, const StampName *names, int nnames,
								 const char *relname, const Oid *oids, NameData *result);
extern bool stamp_name_explains(const StampName *name, const char *base, const char *actual);

/* ---- oids.c ---- */

typedef struct OidAllocator OidAllocator;

extern OidAllocator *oid_allocator_create(const Oid *catalogs, const Oid *oid_indexes, int ncatalogs);
extern void oid_allocator_reserve(OidAllocator *allocator, uint32 wanted);
extern Oid	oid_allocator_next(OidAllocator *allocator);

/* ---- bulk_insert.c ---- */

typedef struct CatalogWriter CatalogWriter;

extern CatalogWriter *catalog_writer_open(Oid catalog);
extern Relation catalog_writer_relation(const CatalogWriter *writer);
extern void catalog_writer_insert(CatalogWriter *writer, HeapTuple *tuples, int ntuples,
								  bool invalidate_each);
extern void catalog_writer_close(CatalogWriter *writer);

/* ---- bulk_delete.c ---- */

extern void catalog_delete(Relation rel, ItemPointerData *tids, int ntids, bool invalidate_each);

/* ---- index_run.c ---- */

/* The order of an index in which the last run's rows were; no rows before the first. */
typedef struct RunOrder
{
	MemoryContext context;		/* of rows[] */
	int			nrows;
	int		   *rows;
} RunOrder;

extern void index_run_insert(Relation heap, Relation index, IndexInfo *info,
							 HeapTuple *tuples, int ntuples, RunOrder *order);

/* ---- files.c ---- */

/* The forks of one relation of the prototype. */
typedef struct FileImage FileImage;

extern FileImage *file_image_capture(Relation rel);
extern void file_image_create(const FileImage *image, RelFileLocator locator);
extern bool file_image_equal(const FileImage *one, const FileImage *other);
extern bool file_image_is_of(const FileImage *image, RelFileLocator locator);
extern void file_image_free(FileImage *image);
extern void file_image_put(StringInfo buf, const FileImage *image);
extern FileImage *file_image_get(const char **at, const char *end);

/* ---- tree.c ---- */

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
extern List *tree_parts(const TemplateTree *tree);
extern bool tree_needs_pair(const TemplateTree *tree);
extern void tree_check_names(const TemplateTree *tree, const NameFormat *format, int64 last);
extern void tree_create(const TemplateTree *tree, const char *relname, Oid namespaceid,
						Oid tablespace, const char *access_method, Oid *created);

/* ---- stamp.c ---- */

typedef struct Stamp Stamp;

extern bool stamp_is_of_both(Oid prototype, Oid other);
extern Stamp *stamp_compile(const TemplateTree *tree, const Oid *prototypes, Oid other);
extern int	stamp_rows_per_table(const Stamp *stamp);

/* ---- stamp_batch.c ---- */

typedef struct StampBatch StampBatch;

extern StampBatch *stamp_batch_begin(Stamp *stamp, NameRegistry *registry);
extern void stamp_batch_reserve(StampBatch *batch, int ntables);
extern void stamp_batch_add(StampBatch *batch, const NameData *relname, Oid tablespace);
extern void stamp_batch_flush(StampBatch *batch, bool invalidate_each);
extern void stamp_batch_end(StampBatch *batch);

/* ---- prototype.c ---- */

extern void template_lock(Oid template);
extern bool template_has_serials(Oid template);
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

extern void refuse_template(Relation rel, const char *what, const char *hint);
extern void template_parts_read(TreeNode *node);
extern void template_check(const TreeNode *node);
extern bool template_parts_have_expressions(const List *parts);
extern void template_parts_create(const TemplateTree *tree, const Oid *created);
extern char *created_name(const TemplateTree *tree, int node, Oid created);
extern char *table_name(Relation rel);
extern int	settle_commands(void);
extern void run_statement(Node *statement, const char *command);

/* ---- settings.c ---- */

extern void settle_definitions(void);
extern void settle_setting(const char *name, const char *value);

/* ---- progress.c ---- */

extern void create_progress_start(Oid template, int64 total);
extern void create_progress_update(int64 done);
extern void create_progress_end(void);

#endif							/* PGBILLION_CREATE_TABLES_H */
