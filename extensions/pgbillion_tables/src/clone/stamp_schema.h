/*-------------------------------------------------------------------------
 *
 * stamp_schema.h
 *	  The catalog rows of a whole schema, compiled so as to be written again.
 *
 * The way of a stamp:
 *
 *	schema_rows.c	collects the rows about a schema and all that is in it
 *	compare.c		compares those of two clones that PostgreSQL has made; what
 *					differs is what changes from clone to clone
 *	holes.c			the same for texts: stored expressions, and names
 *	packed_text.c	the long ones among them, compressed
 *	named_text.c	texts of functions, with the schema's name in them
 *	write.c			writes further clones
 *	kept_stamps.c	keeps stamps from call to call
 *	fingerprint.c	tells whether those still hold
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
#ifndef PGBILLION_STAMP_SCHEMA_H
#define PGBILLION_STAMP_SCHEMA_H

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

#include "clone/clone.h"
#include "drop/family.h"
#include "tables.h"

/* ---- schema_rows.c ---- */

#define NUM_SCHEMA_CATALOGS 30

/* The catalogs that can have rows about a schema; the first is pg_namespace. */
extern const FamilyCatalog schema_catalogs[NUM_SCHEMA_CATALOGS];

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
	int			nrows[NUM_SCHEMA_CATALOGS];
	SchemaRow  *rows[NUM_SCHEMA_CATALOGS];	/* by member */
} SchemaRows;

extern SchemaRows *schema_rows_collect(Oid schema, char **reason);
extern int	schema_member_cmp(const void *a, const void *b);
extern int	schema_rows_member(const SchemaRows *rows, Oid classid, Oid objid);
extern int	schema_rows_explain(const SchemaRows *one, const SchemaRows *other, Oid oid,
								Oid other_oid);

/* ---- holes.c ---- */

/* Bytes of a piece, a copy of earlier ones, or (of no length) the OID behind a piece. */
typedef struct PackedItem
{
	int			piece;
	int			at;				/* in the piece */
	unsigned int length:31;
	unsigned int is_copy:1;
} PackedItem;

/* A text with OIDs of members in it. */
typedef struct HoledText
{
	int			nholes;
	char	  **pieces;			/* nholes + 1 */
	int		   *members;		/* nholes */
	bool	   *as_bytes;		/* nholes: four bytes, as in a Const's value? */
	int			nitems;			/* 0 unless it has been packed */
	PackedItem *items;
} HoledText;

/* An OID takes so many characters at most, as four signed bytes. */
#define MAX_HOLE 20

extern HoledText *holed_text_compare(const SchemaRows *one, const SchemaRows *other,
									 const char *text, const char *other_text, bool is_name);
extern void holed_text_fill_name(const HoledText *text, const Oid *oids, Name name);
extern Datum holed_text_fill(const HoledText *text, const Oid *oids);
extern int	hole_write(const HoledText *text, int hole, const Oid *oids, char *characters);

/* ---- named_text.c ---- */

extern HoledText *named_body_compare(const SchemaRows *one, const SchemaRows *other, Datum body, Datum other_body);
extern HoledText *named_settings_compare(const SchemaRows *one, const SchemaRows *other,
										 Datum settings, Datum other_settings);
extern Datum named_body_fill(const HoledText *text, const char *schema);
extern Datum named_settings_fill(const HoledText *text, const char *schema);

/* ---- packed_text.c ---- */

extern void holed_text_pack(HoledText *text);
extern Datum holed_text_fill_packed(const HoledText *text, const Oid *oids);

/* ---- compare.c ---- */

typedef enum SchemaPatchKind
{
	SCHEMA_PATCH_OID,			/* of members[what] */
	SCHEMA_PATCH_SCHEMA_NAME,
	SCHEMA_PATCH_NAME,			/* texts[what] */
	SCHEMA_PATCH_TREE,			/* the same, of the column at `place` */
	SCHEMA_PATCH_BODY,			/* the same, with the schema's name in the
								 * holes */
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
	HoledText **texts;
	int			nrows[NUM_SCHEMA_CATALOGS];
	SchemaStampRow *rows[NUM_SCHEMA_CATALOGS];
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

/* ---- fingerprint.c ---- */

extern uint64 fingerprint_of_template(Oid template);
extern uint64 fingerprint_of_clones(Oid template, uint64 *of_template);

/* ---- kept_stamps.c ---- */

extern SchemaStamp *kept_stamp_find(Oid template, const CloneOptions *options);
extern char *kept_stamp_bytes(Oid template, const CloneOptions *options, const SchemaStamp *stamp,
							  uint64 fingerprint, int *length);
extern bool kept_stamp_store(Oid template, const CloneOptions *options, const char *bytes,
							 int length, bool wait);

#endif							/* PGBILLION_STAMP_SCHEMA_H */
