/*-------------------------------------------------------------------------
 *
 * stamp.h
 *	  The catalog rows of a table, or of a whole schema, compiled so as to be
 *	  written again.
 *
 * The way of a table's stamp, with the partitions below it:
 *
 *	stamp.c			compiles the table's catalog rows: images of them, and the
 *					places where an OID, a name, a file number or a tablespace
 *					goes
 *	names.c			tells from what the names in it are made
 *	stamp_batch.c	writes the others' rows from it
 *	name_registry.c	the names that a table and its parts get, as PostgreSQL
 *					chooses them
 *	at_abort.c		what is forgotten of them if their transaction aborts
 *	files.c			the files, copied from those of the first table
 *
 * Because it is made from rows that PostgreSQL wrote a moment before, in the
 * same transaction, whatever PostgreSQL records about a table (in this major
 * version, for this user, under these default privileges) is what the stamped
 * tables get.
 *
 * The way of a schema's stamp:
 *
 *	rows.c			collects the rows about a schema and all that is in it
 *	compare_rows.c	compares those of two clones that PostgreSQL has made; what
 *					differs is what changes from clone to clone
 *	oid_text.c		the same for texts: stored expressions, and names
 *	packed_text.c	the long ones among them, compressed
 *	named_text.c	texts of functions, with the schema's name in them
 *	write.c			writes further clones
 *
 * Nothing here knows what an expression or a kind of object is made of. Two
 * clones of one template, made by the same commands one after the other,
 * differ only where an OID or the name of the schema stands, because no two
 * objects of a catalog have the same OID. So each place that differs must
 * hold the OIDs of one and the same member of both, and goes into the stamp
 * as that member's; any other difference, and whatever the list of catalogs
 * does not have, is a reason to make all clones by commands.
 *
 * Memory: what is returned lives in the caller's current context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_STAMP_H
#define PGBILLION_STAMP_H

#include "access/htup.h"
#include "catalog/objectaddress.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

#include "catalog_rows/catalog_rows.h"
#include "ddl/ddl.h"

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

/* ---- rows.c ---- */

/* The schema, an object in it, a part of one, or a file (whose class is invalid). */
typedef struct SchemaMember
{
	Oid			classid;
	Oid			objid;
} SchemaMember;

typedef struct SchemaRow
{
	int			member;			/* whom it is about */
	HeapTuple	tuple;
} SchemaRow;

typedef struct SchemaRows
{
	char	   *name;			/* of the schema */
	int			nmembers;
	SchemaMember *members;		/* by OID, and then by catalog */
	int			nrows[NUM_OBJECT_CATALOGS];
	SchemaRow  *rows[NUM_OBJECT_CATALOGS];	/* by member */
} SchemaRows;

extern SchemaRows *schema_rows_collect(Oid schema, char **reason);
extern int	schema_member_cmp(const void *a, const void *b);
extern int	schema_rows_member(const SchemaRows *rows, Oid classid, Oid objid);
extern int	schema_rows_explain(const SchemaRows *one, const SchemaRows *other, Oid oid,
								Oid other_oid);

/* ---- oid_text.c ---- */

/* Bytes of a piece, a copy of earlier ones, or (of no length) the OID behind a piece. */
typedef struct PackedItem
{
	int			piece;
	int			at;				/* in the piece */
	unsigned int length:31;
	unsigned int is_copy:1;
} PackedItem;

/* A text with OIDs of members in it. */
typedef struct OidTemplate
{
	int			nplaces;
	char	  **pieces;			/* nplaces + 1 */
	int		   *members;		/* nplaces */
	bool	   *as_bytes;		/* nplaces: four bytes, as in a Const's value? */
	int			nitems;			/* 0 unless it has been packed */
	PackedItem *items;
} OidTemplate;

/* An OID takes so many characters at most, as four signed bytes. */
#define MAX_PLACE_LENGTH 20

extern OidTemplate *oid_template_compare(const SchemaRows *one, const SchemaRows *other,
										 const char *text, const char *other_text, bool is_name);
extern void oid_template_fill_name(const OidTemplate *text, const Oid *oids, Name name);
extern Datum oid_template_fill(const OidTemplate *text, const Oid *oids);
extern int	oid_template_write(const OidTemplate *text, int place, const Oid *oids, char *characters);

/* ---- named_text.c ---- */

extern OidTemplate *named_body_compare(const SchemaRows *one, const SchemaRows *other, Datum body, Datum other_body);
extern OidTemplate *named_settings_compare(const SchemaRows *one, const SchemaRows *other,
										   Datum settings, Datum other_settings);
extern Datum named_body_fill(const OidTemplate *text, const char *schema);
extern Datum named_settings_fill(const OidTemplate *text, const char *schema);

/* ---- packed_text.c ---- */

extern void oid_template_pack(OidTemplate *text);
extern Datum oid_template_fill_packed(const OidTemplate *text, const Oid *oids);

/* ---- compare_rows.c ---- */

typedef enum SchemaPatchKind
{
	SCHEMA_PATCH_OID,			/* of members[what] */
	SCHEMA_PATCH_SCHEMA_NAME,
	SCHEMA_PATCH_NAME,			/* texts[what] */
	SCHEMA_PATCH_TREE,			/* the same, of the column at `place` */
	SCHEMA_PATCH_BODY,			/* the same, with the schema's name in the
								 * places */
	SCHEMA_PATCH_SETTINGS,		/* the same, of an array of such texts */
	SCHEMA_PATCH_XID,			/* before which no row can have been written */
	SCHEMA_PATCH_MULTIXACT
} SchemaPatchKind;

typedef struct SchemaPatch
{
	SchemaPatchKind kind;
	int			what;
	int			place;			/* from the tuple's header, or a column */
} SchemaPatch;

typedef struct SchemaStampRow
{
	HeapTuple	image;
	int			npatches;
	SchemaPatch *patches;
	bool		has_trees;
} SchemaStampRow;

typedef struct SchemaStampMember
{
	Oid			classid;
	int			file;			/* in files[], or -1 */
	Oid			tablespace;		/* of the file */
} SchemaStampMember;

/* The file that a member of this OID has. */
static inline RelFileLocator
member_locator(const SchemaStampMember *member, Oid oid)
{
	return make_locator(OidIsValid(member->tablespace) ? member->tablespace : MyDatabaseTableSpace, oid);
}

/* A relation of another schema that clones refer to. */
typedef struct SchemaOutside
{
	Oid			relid;
	LOCKMODE	lockmode;		/* of the command that refers to it */
} SchemaOutside;

typedef struct SchemaStamp
{
	int			nmembers;
	SchemaStampMember *members;
	int			nfiles;
	FileImage **files;			/* each different from the others */
	int			ntexts;
	OidTemplate **texts;
	int			nrows[NUM_OBJECT_CATALOGS];
	SchemaStampRow *rows[NUM_OBJECT_CATALOGS];
	int			noutside;
	SchemaOutside *outside;
	List	   *contents;		/* commands that fill materialized views */
	char	   *functions;		/* those that name the template, or NULL */
	const SchemaRows *first;	/* those it was compiled from; NULL if it was
								 * kept */
} SchemaStamp;

extern SchemaStamp *schema_stamp_compile(Oid schema, Oid other, char **reason);
extern bool schema_stamp_verify(const SchemaStamp *stamp, Oid clone, char **reason);
extern int	schema_stamp_rows(const SchemaStamp *stamp);

/* ---- write.c ---- */

typedef struct SchemaWriter SchemaWriter;

extern SchemaWriter *schema_writer_begin(const SchemaStamp *stamp, int64 count);
extern void schema_writer_add(SchemaWriter *writer, const char *name);
extern void schema_writer_end(SchemaWriter *writer);

/* ---- name_registry.c ---- */

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

/* Which names are taken; see name_registry.c. */
typedef struct NameRegistry NameRegistry;

extern NameRegistry *name_registry_create(const NameFormat *format, int64 first, int64 last,
										  Oid namespaceid);
extern void name_registry_claim_table(NameRegistry *registry, const char *relname);
extern void name_registry_choose(NameRegistry *registry, const StampName *names, int nnames,
								 const char *relname, const Oid *oids, NameData *result);
extern bool stamp_name_explains(const StampName *name, const char *base, const char *actual);

/* ---- stamp.c ---- */

typedef enum PatchKind
{
	PATCH_OID,					/* of objects[what] */
	PATCH_NAME,					/* names[what] */
	PATCH_TABLESPACE			/* of the table */
} PatchKind;

typedef struct StampPatch
{
	PatchKind	kind;
	int			what;
	Size		offset;			/* from the tuple's header */
} StampPatch;

/* A stored expression that holds OIDs of the family. */
typedef struct StampExpression
{
	AttrNumber	attnum;
	OidTemplate *text;			/* whose members are objects of the stamp */
} StampExpression;

typedef struct StampRow
{
	HeapTuple	image;
	int			npatches;
	StampPatch *patches;
	int			nexpressions;
	StampExpression *expressions;	/* NULL if there are none */
} StampRow;

/* A catalog that the family has rows in. */
typedef struct StampCatalog
{
	Oid			catalog;
	Oid			oid_index;		/* InvalidOid if its rows have no OID */
	int			nrows;
	int			size;
	StampRow   *rows;
} StampCatalog;

/* A member of the family. */
typedef struct StampObject
{
	ObjectAddress address;		/* objectSubId is 0 */
	char		relkind;		/* of a relation, else 0 */
	int			name;			/* in names[], or -1 for one that is kept */
	bool		follows_table;	/* into the first table's tablespace? */
	Oid			tablespace;		/* of a relation */
	FileImage  *files;			/* of a relation; NULL if it has none, or none
								 * yet */
} StampObject;

/* A table of the family: the first, or a partition below it. */
typedef struct StampTable
{
	Oid			relid;
	Oid			template;
	char	   *relname;
	Oid			toast;			/* its TOAST table, or InvalidOid */
} StampTable;

typedef struct Stamp
{
	Oid			other;			/* a second prototype, or InvalidOid */
	int			ntables;
	StampTable *tables;			/* the first is the prototype; names[] begins
								 * with theirs */
	int			nobjects;
	StampObject *objects;		/* by OID, ascending */
	SchemaRows	members;		/* the same, without rows */
	SchemaRows	other_members;	/* those of the second prototype */
	int			nwithout_file;	/* how many relations there are without a file
								 * in the table's tablespace */
	int			nnames;
	StampName  *names;
	int			ncatalogs;
	StampCatalog *catalogs;
	List	   *referenced;		/* OIDs of other tables with triggers of their
								 * foreign keys, and of their parents */
} Stamp;

/* Position of a member in objects[], or -1. */
static inline int
stamp_member(const Stamp *stamp, Oid classid, Oid objid)
{
	return schema_rows_member(&stamp->members, classid, objid);
}


extern bool stamp_is_of_both(Oid prototype, Oid other);
extern Stamp *stamp_compile(StampTable *tables, int ntables, Oid other);
extern int	stamp_rows_per_table(const Stamp *stamp);

/* ---- names.c ---- */

extern void stamp_name_members(Stamp *stamp);

/* ---- stamp_batch.c ---- */

typedef struct StampBatch StampBatch;

extern StampBatch *stamp_batch_begin(Stamp *stamp, NameRegistry *registry);
extern void stamp_batch_reserve(StampBatch *batch, int ntables);
extern void stamp_batch_add(StampBatch *batch, const NameData *relname, Oid tablespace);
extern void stamp_batch_flush(StampBatch *batch, bool invalidate_each);
extern void stamp_batch_end(StampBatch *batch);

/* ---- at_abort.c ---- */

extern void stamp_at_abort_init(void);
extern void stamp_forget_at_abort(void);

#endif							/* PGBILLION_STAMP_H */
