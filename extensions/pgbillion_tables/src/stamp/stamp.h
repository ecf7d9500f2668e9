/*-------------------------------------------------------------------------
 *
 * stamp.h
 *	  What a stamp is made of: see stamp.c and stamp_names.c, which compile it,
 *	  and stamp_batch.c, which writes it. It is that of a table, with the
 *	  partitions below it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_STAMP_H
#define PGBILLION_STAMP_H

#include "access/htup.h"
#include "catalog/objectaddress.h"
#include "nodes/pg_list.h"

#include "clone/stamp_schema.h"
#include "tables.h"

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
	HoledText  *text;			/* whose members are objects of the stamp */
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

struct Stamp
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
};

/* Position of a member in objects[], or -1. */
static inline int
stamp_member(const Stamp *stamp, Oid classid, Oid objid)
{
	return schema_rows_member(&stamp->members, classid, objid);
}

extern void stamp_name_members(Stamp *stamp);

#endif							/* PGBILLION_STAMP_H */
