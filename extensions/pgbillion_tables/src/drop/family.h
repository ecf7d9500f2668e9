/*-------------------------------------------------------------------------
 *
 * family.h
 *	  Which catalogs hold rows about a table and its parts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_FAMILY_H
#define PGBILLION_FAMILY_H

#include "access/attnum.h"
#include "access/htup.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/*
 * A catalog, and how to find its rows about a member of a table's family:
 * the table itself, its types, TOAST table, indexes, constraints, defaults,
 * owned sequences, statistics, triggers, rules and policies. Triggers of a
 * foreign key are its own also where they are on the table that it refers to.
 */
typedef struct FamilyCatalog
{
	Oid			catalog;
	Oid			oid_index;		/* on the OID, of catalogs of members; else 0 */
	Oid			scan_index;		/* finds the rows of a member */
	AttrNumber	object_column;	/* that holds the member's OID */
	AttrNumber	class_column;	/* that holds its catalog, or 0 */
	AttrNumber	database_column;	/* that holds the database, or 0 */
	Oid			member_class;	/* whose members have rows here, or 0 for all */
} FamilyCatalog;

#define NUM_FAMILY_CATALOGS 20

extern const FamilyCatalog family_catalogs[NUM_FAMILY_CATALOGS];

extern bool is_family_class(Oid classid);
extern bool family_class_first(const FamilyCatalog *family);

/* A member, as the key of a search, and whose it is. */
typedef struct FamilyKey
{
	Oid			classid;
	Oid			objid;
	int			table;			/* the caller's; not looked at here */
} FamilyKey;

/* Called for each row found; `key` is that of the array given. */
typedef void (*FamilyRowCallback) (HeapTuple tuple, Relation rel, const FamilyKey *key, void *arg);

extern void family_scan(const FamilyCatalog *family, FamilyKey *keys, int nkeys,
						FamilyRowCallback callback, void *arg);
extern void family_scan_as_of(Snapshot snapshot, const FamilyCatalog *family, FamilyKey *keys, int nkeys,
							  FamilyRowCallback callback, void *arg);

#endif							/* PGBILLION_FAMILY_H */
