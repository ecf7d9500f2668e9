/*-------------------------------------------------------------------------
 *
 * stamp.h
 *	  The catalog rows of a table with its partitions, or of a whole schema,
 *	  compiled so as to be written again.
 *
 *	rows.c			collects the rows about a table, or a schema, and all its
 *					members
 *	compile.c		compares those of two that PostgreSQL has made; what differs
 *					is what changes from one to the next
 *	oid_text.c		the same for texts: stored expressions, and names
 *	packed_text.c	the long ones among them, compressed
 *	named_text.c	texts of functions, with the schema's name in them
 *	tables.c		what only tables have: names that are chosen, and a
 *					tablespace
 *	name_origins.c	finds out how PostgreSQL chose the names
 *	name_registry.c	chooses them in the same way
 *	files.c			the files, copied from those of the first
 *	write.c			writes further ones
 *	at_abort.c		what is forgotten of them if their transaction aborts
 *
 * Both are made from rows that PostgreSQL wrote a moment before, in the same
 * transaction. So whatever PostgreSQL records about an object, in this major
 * version, for this user, under these default privileges, is what the others
 * get.
 *
 * Nothing here knows what an expression or a kind of object is made of. Two
 * tables or schemas that the same commands have made, one after the other,
 * differ only where an OID, a name that PostgreSQL chose, or the name of the
 * schema stands, because no two objects of a catalog have the same OID. So
 * each place that differs must hold the OIDs of one and the same member of
 * both, and goes into the stamp as that member's. Any other difference, and
 * any catalog that catalog_map.c does not list, is a reason to have no stamp.
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
extern bool file_image_is_of_relation(const FileImage *image, Relation rel);
extern bool file_image_is_of(const FileImage *image, RelFileLocator locator);
extern void file_image_free(FileImage *image);
extern void file_image_put(StringInfo buf, const FileImage *image);
extern FileImage *file_image_get(const char **at, const char *end);

/* The file of a relation in a tablespace as pg_class.reltablespace has it. */
static inline RelFileLocator
stamp_locator(Oid tablespace, Oid relid)
{
	return make_locator(OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace, relid);
}

/* ---- rows.c ---- */

/* The root, an object in it, a part of one, or a file (whose class is invalid). */
typedef struct Member
{
	Oid			classid;
	Oid			objid;
} Member;

typedef struct MemberRow
{
	int			member;			/* whom it is about */
	HeapTuple	tuple;
} MemberRow;

typedef struct MemberRows
{
	char	   *name;			/* of the root, if that is a schema */
	int			nmembers;
	Member	   *members;		/* by OID, and then by catalog */
	int			nrows[NUM_OBJECT_CATALOGS];
	MemberRow  *rows[NUM_OBJECT_CATALOGS];	/* by member */
} MemberRows;

extern MemberRows *member_rows_collect(Oid classid, Oid objid, CatalogScope scope, char **unknown);
extern int	member_cmp(const void *a, const void *b);
extern int	member_rows_find(const MemberRows *rows, Oid classid, Oid objid);
extern const MemberRow *member_rows_about(const MemberRows *rows, int catalog, int member, int *nrows);
extern bool member_rows_match(const MemberRows *one, const MemberRows *other);
extern int	member_rows_explain(const MemberRows *one, const MemberRows *other, Oid oid,
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

/* Maximum number of characters that an OID takes, as four signed bytes. */
#define MAX_PLACE_LENGTH 20

extern OidTemplate *oid_template_compare(const MemberRows *one, const MemberRows *other,
										 const char *text, const char *other_text, bool is_name);
extern void oid_template_fill_name(const OidTemplate *text, const Oid *oids, Name name);
extern Datum oid_template_fill(const OidTemplate *text, const Oid *oids);
extern int	oid_template_write(const OidTemplate *text, int place, const Oid *oids, char *characters);

/* ---- named_text.c ---- */

extern OidTemplate *named_body_compare(const MemberRows *one, const MemberRows *other, Datum body, Datum other_body);
extern OidTemplate *named_settings_compare(const MemberRows *one, const MemberRows *other,
										   Datum settings, Datum other_settings);
extern Datum named_body_fill(const OidTemplate *text, const char *schema);
extern Datum named_settings_fill(const OidTemplate *text, const char *schema);

/* ---- packed_text.c ---- */

extern void oid_template_pack(OidTemplate *text);
extern Datum oid_template_fill_packed(const OidTemplate *text, const Oid *oids);

/* ---- name_registry.c ---- */

/* What the name of an object is made from. */
typedef enum StampNameKind
{
	STAMP_NAME_TABLE,			/* a table's own, and its row type's: the
								 * first's with the addition */
	STAMP_NAME_ARRAY_TYPE,		/* PostgreSQL's makeArrayTypeName() */
	STAMP_NAME_RELATION,		/* PostgreSQL's ChooseRelationName() */
	STAMP_NAME_INDEX_CONSTRAINT,	/* the same, of an index with a constraint */
	STAMP_NAME_CONSTRAINT,		/* PostgreSQL's ChooseConstraintName() */
	STAMP_NAME_STATISTICS		/* PostgreSQL's ChooseExtendedStatisticName() */
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
} StampName;

/* Which names are taken; see name_registry.c. */
typedef struct NameRegistry NameRegistry;

extern NameRegistry *name_registry_create(const NameFormat *format, int64 first, int64 last,
										  Oid namespaceid);
extern void name_registry_claim_table(NameRegistry *registry, const char *relname);
extern void name_registry_choose(NameRegistry *registry, const StampName *names, int nnames,
								 const char *relname, NameData *result);
extern bool stamp_name_explains(const StampName *name, const char *base, const char *actual);

/* ---- compile.c ---- */

typedef enum PatchKind
{
	PATCH_OID,					/* of members[what] */
	PATCH_SCHEMA_NAME,
	PATCH_CHOSEN_NAME,			/* names[what] */
	PATCH_NAME,					/* texts[what] */
	PATCH_TREE,					/* the same, of the column at `place` */
	PATCH_BODY,					/* the same, with the schema's name in the
								 * places */
	PATCH_SETTINGS,				/* the same, of an array of such texts */
	PATCH_TABLESPACE,			/* of the table */
	PATCH_XID,					/* before which no row can have been written */
	PATCH_MULTIXACT
} PatchKind;

typedef struct StampPatch
{
	PatchKind	kind;
	int			what;
	int			place;			/* from the tuple's header, or a column */
} StampPatch;

typedef struct StampRow
{
	HeapTuple	image;
	int			npatches;
	StampPatch *patches;
	bool		has_trees;
} StampRow;

typedef struct StampMember
{
	Oid			classid;
	int			file;			/* in files[], or -1 */
	Oid			tablespace;		/* of the file */
	int			name;			/* in names[], or -1 if it is not chosen */
	bool		follows_table;	/* is it in the table's tablespace, which is
								 * chosen? */
} StampMember;

/* A relation of another schema, or other than the table, that the new ones refer to. */
typedef struct StampOutside
{
	Oid			relid;
	LOCKMODE	lockmode;		/* of the command that refers to it */
} StampOutside;

typedef struct Stamp
{
	int			nmembers;
	StampMember *members;
	int			nnames;			/* 0 for a schema */
	StampName  *names;
	int			nfiles;
	FileImage **files;			/* each different from the others */
	int			ntexts;
	OidTemplate **texts;
	int			nrows[NUM_OBJECT_CATALOGS];
	StampRow   *rows[NUM_OBJECT_CATALOGS];
	int			noutside;
	StampOutside *outside;
	List	   *contents;		/* commands that fill materialized views */
	char	   *functions;		/* those that name the template, or NULL */
	const MemberRows *first;	/* those it was compiled from; NULL if it was
								 * kept */
} Stamp;

/* A table of a tree: the first, or a partition below it. */
typedef struct StampTable
{
	Oid			relid;
	Oid			template;
	char	   *relname;
} StampTable;

extern Stamp *stamp_compile_schemas(Oid schema, Oid other, char **reason);
extern Stamp *stamp_compile_tables(const StampTable *tables, int ntables, MemberRows *one,
								   MemberRows *other, char **reason);
extern bool stamp_verify(const Stamp *stamp, Oid clone, char **reason);
extern int	stamp_rows(const Stamp *stamp);

/* ---- tables.c ---- */

extern MemberRows *table_rows_collect(Oid table);
extern void stamp_prepare_tables(Stamp *stamp, const StampTable *tables, int ntables,
								 MemberRows *one, MemberRows *other);

/* ---- name_origins.c ---- */

extern void stamp_name_members(Stamp *stamp, const StampTable *tables, int ntables,
							   const MemberRows *one, const MemberRows *other);

/* ---- write.c ---- */

typedef struct StampWriter StampWriter;

extern StampWriter *stamp_writer_begin(const Stamp *stamp, int64 count, NameRegistry *registry);
extern bool stamp_writer_add(StampWriter *writer, const char *name, Oid tablespace);
extern void stamp_writer_end(StampWriter *writer);

/* ---- at_abort.c ---- */

extern void stamp_at_abort_init(void);
extern void stamp_forget_at_abort(void);

#endif							/* PGBILLION_STAMP_H */
