/*-------------------------------------------------------------------------
 *
 * clone.h
 *	  Whole schemas, cloned.
 *
 * The way of a call of pgbillion_tables.clone_schema():
 *
 *	clone_schema.c	checks the arguments, drives the others
 *	definition.c	reads what a schema has, as commands in an order in which
 *					they can be run
 *	kinds.c			the queries for that, one for each kind of object, and
 *					those that find what cannot be carried
 *	wording.c		compares definitions, however they are worded
 *	copy_rows.c		copies rows of the template
 *	verify.c		refuses what cannot be carried, and compares a clone with
 *					its template
 *	kept_stamps.c	keeps stamps, of which further clones are made (see stamp.h),
 *					from call to call
 *	template_version.c	tells whether those still hold
 *
 * A clone is made by ordinary commands, run as the caller: PostgreSQL checks
 * the privileges, takes the locks, applies the hooks. Where many are wanted,
 * two of them are, and their catalog rows tell what those of the others are.
 *
 * The commands name what is in the schema without the schema. They are read
 * with the template first in the search path, and run with the clone in its
 * place. That is sound because every name in the template is visible under
 * that path (one that pg_catalog has, too, is refused). Where a WITH query or
 * another function hides what is meant, PostgreSQL qualifies the name, and the
 * clone's name takes the template's place there. All of it is verified: the
 * commands that are read from the clone are the same, and nothing in the clone
 * refers to anything in the template.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_CLONE_H
#define PGBILLION_CLONE_H

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

#include "stamp/stamp.h"

/* What is other in clones than in their template. */
typedef struct CloneOptions
{
	const char *access_method;	/* of tables; NULL for the template's */
	bool		rewrite_bodies; /* of functions that name the template? */
} CloneOptions;

/*
 * The queries of kinds.c. Each has two parameters: $1, the schema's OID, and
 * $2, see below. Their own names are pg_catalog's; the names in what they
 * return are looked up, or shown, under the path of the schema.
 */

/*
 * Returns classid, objid and a command; $2 is an access method, or null. For
 * functions also the text that follows the command, or null if that is
 * complete, whether that may be rewritten, and the search path that the command
 * sets, or null.
 */
extern const char *const clone_object_queries[];
extern const int clone_object_nqueries;

/* Returns a row if the schema's name before a dot may be something else's in its commands. */
extern const char *const clone_ambiguous_query;

/* Pairs of objects, the first of which needs the second, as classid and objid each. */
extern const char *const clone_order_query;

/* Returns commands to be run after those of all objects; $2 is the clone's name. */
extern const char *const clone_last_queries[];
extern const int clone_last_nqueries;

/* Returns commands that give materialized views their contents. */
extern const char *const clone_fill_query;

/* Returns what cannot be carried, and a hint. */
extern const char *const clone_refused_queries[];
extern const int clone_refused_nqueries;

/* Returns an object of schema $1 and the one of the schema named $2 that it refers to. */
extern const char *const clone_strays_query;

/* Returns functions that name the schema: their text, whether it may be rewritten, their search path, other settings. */
extern const char *const clone_functions_query;

/* Returns the commands by which a clone joins the publications of schema $1. */
extern const char *const clone_publications_query;

/*
 * Of tables whose rows are to be copied, $2, an array of OIDs as text; all
 * without it. Returns those that are no tables of the schema; tables of which
 * that is impossible, why, and a hint; their names; and the names of sequences
 * that go on from their present values.
 */
extern const char *const clone_no_table_query;
extern const char *const clone_not_copied_query;
extern const char *const clone_copied_tables_query;
extern const char *const clone_copied_sequences_query;

/* ---- definition.c ---- */

extern void clone_query(const char *query, Oid schema, const char *argument);
extern List *definition_of_objects(Oid schema, const CloneOptions *options);
extern List *definition_for(List *objects, const char *clone);
extern List *definition_of_rest(Oid schema, const char *clone);
extern List *definition_of_contents(Oid schema);
extern List *definition_of_publications(Oid schema);
extern char *definition_names(Oid schema, bool rewritten);

/* ---- wording.c ---- */

extern char *wording_of(const char *definition);

/* ---- copy_rows.c ---- */

/* What is copied of a template's contents: names in it. */
typedef struct CopiedRows
{
	List	   *tables;
	List	   *sequences;
} CopiedRows;

extern CopiedRows *copied_rows_choose(Oid template, const char *tables);
extern void copied_rows_copy(const CopiedRows *rows, Oid template, const char *clone,
							 Snapshot snapshot);

/* ---- verify.c ---- */

extern void clone_refuse(Oid template, uint64 version);
extern void clone_verify(Oid template, Oid clone, List *objects, List *rest,
						 const CloneOptions *options, uint64 version);

/* ---- template_version.c ---- */

extern uint64 template_version(Oid template);
extern void template_check_unchanged(Oid template, uint64 version);
extern uint64 template_version_of_clones(Oid template, uint64 *of_template);

/* ---- kept_stamps.c ---- */

extern Stamp *kept_stamp_find(Oid template, const CloneOptions *options);
extern char *kept_stamp_bytes(Oid template, const CloneOptions *options, const Stamp *stamp,
							  uint64 version, int *length);
extern bool kept_stamp_store(Oid template, const CloneOptions *options, const char *bytes,
							 int length, bool wait);

#endif							/* PGBILLION_CLONE_H */
