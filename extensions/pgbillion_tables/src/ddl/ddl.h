/*-------------------------------------------------------------------------
 *
 * ddl.h
 *	  Commands and definitions as texts.
 *
 *	settings.c		settings under which definitions are shown and read again
 *	run_statement.c	statements run as a session's own
 *	observers.c		who relies on seeing commands
 *	name_format.c	names that are made of a number
 *	function_text.c	the schema's name in the text of functions
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_DDL_H
#define PGBILLION_DDL_H

#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

#include "compat.h"

/* ---- settings.c ---- */

extern void ddl_settle_definitions(void);
extern void ddl_settle_setting(const char *name, const char *value);
extern int	ddl_settle_commands(void);

/* ---- run_statement.c ---- */

extern void ddl_run_statement(Node *statement, const char *command);
extern char *ddl_table_name(Relation rel);

/* ---- observers.c ---- */

extern void ddl_check_observers(const Bitmapset *tags, bool drop);
extern bool ddl_is_observed(void);

/* ---- name_format.c ---- */

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

extern NameFormat *name_format_parse(const char *format);
extern void name_format_apply(const NameFormat *format, int64 number, NameData *name);
extern void name_format_check_lengths(const NameFormat *format, int64 first, int64 last);
extern void name_format_check_numbers(int64 first, int64 count, const char *what);

/* ---- function_text.c ---- */

/* Pieces of a text, one more than there are places for the schema's name, as an identifier. */
extern List *body_split(const char *body, const char *schema);
extern List *body_split_path(const char *path, const char *schema);
extern char *body_join(const List *pieces, const char *schema, int width);
extern bool body_pieces_name(const List *pieces, const char *schema);
extern bool body_can_name(const char *schema);

#endif							/* PGBILLION_DDL_H */
