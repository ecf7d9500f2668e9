/*-------------------------------------------------------------------------
 *
 * catalog_rows.h
 *	  Rows of system catalogs, many at a time.
 *
 *	catalog_map.c	which catalogs have rows about what, and how these are found
 *	catalog_scan.c	finds the rows about many objects
 *	oids.c			ranges of unused OIDs
 *	bulk_insert.c	many rows at a time into a catalog
 *	bulk_delete.c	many rows at a time out of a catalog
 *	index_run.c		sorted runs of entries into its indexes
 *	leaf_split.c	pages of those split where a run goes on
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_CATALOG_ROWS_H
#define PGBILLION_CATALOG_ROWS_H

#include "access/attnum.h"
#include "access/htup.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "compat.h"

/* ---- catalog_map.c ---- */

/* Whose rows a catalog can have: those about a table and its parts, about a schema and what is in it. */
typedef enum CatalogScope
{
	CATALOG_OF_TABLES = 1,
	CATALOG_OF_SCHEMAS = 2,
	CATALOG_OF_BOTH = CATALOG_OF_TABLES | CATALOG_OF_SCHEMAS
} CatalogScope;

/* A catalog, and how to find its rows about an object. */
typedef struct CatalogLookup
{
	Oid			catalog;
	Oid			oid_index;		/* on the OID, of catalogs of objects; else 0 */
	Oid			index;			/* finds the rows about an object */
	AttrNumber	object_column;	/* that holds the object's OID */
	AttrNumber	class_column;	/* that holds its catalog, or 0 */
	AttrNumber	database_column;	/* that holds the database, or 0 */
	Oid			member_class;	/* whose objects have rows here, or 0 for all */
	int			scope;			/* of CatalogScope; 0 for another way to rows
								 * that the map has already */
} CatalogLookup;

/*
 * Positions in catalog_map. Those in front find each row about an object once:
 * a table, its types, TOAST table, indexes, constraints, defaults, owned
 * sequences, statistics, triggers (of a foreign key also on the table that it
 * refers to), rules and policies; or a schema and what is in it. Rows are
 * written in this order.
 */
enum
{
	CATALOG_NAMESPACE,
	CATALOG_CLASS,
	CATALOG_ATTRIBUTE,
	CATALOG_INDEX,
	CATALOG_SEQUENCE,
	CATALOG_INHERITS,
	CATALOG_PARTITIONED_TABLE,
	CATALOG_STATISTIC,
	CATALOG_TYPE,
	CATALOG_ENUM,
	CATALOG_RANGE,
	CATALOG_CAST,
	CATALOG_PROC,
	CATALOG_ATTRDEF,
	CATALOG_CONSTRAINT,
	CATALOG_TRIGGER,
	CATALOG_REWRITE,
	CATALOG_POLICY,
	CATALOG_STATISTIC_EXT,
	CATALOG_STATISTIC_EXT_DATA,
	CATALOG_DEFAULT_ACL,
	CATALOG_AGGREGATE,
	CATALOG_OPERATOR,
	CATALOG_COLLATION,
	CATALOG_TS_DICT,
	CATALOG_TS_CONFIG,
	CATALOG_TS_CONFIG_MAP,
	CATALOG_DEPEND,
	CATALOG_SHDEPEND,
	CATALOG_DESCRIPTION,
	CATALOG_INIT_PRIVS,
	CATALOG_SECLABEL,
	NUM_OBJECT_CATALOGS,

	/* by what a row refers to, or belongs to */
	DEPEND_BY_REFERENCE = NUM_OBJECT_CATALOGS,
	ENUM_BY_TYPE,
	INDEX_BY_TABLE,
	ATTRDEF_BY_TABLE,
	CONSTRAINT_BY_TABLE,
	CONSTRAINT_BY_DOMAIN,
	TRIGGER_BY_TABLE,
	RULE_BY_TABLE,
	POLICY_BY_TABLE,
	FOREIGN_TABLE_BY_TABLE,
	SUBSCRIPTION_REL_BY_TABLE,
	LANGUAGE,
	NUM_CATALOG_LOOKUPS
};

extern const CatalogLookup catalog_map[NUM_CATALOG_LOOKUPS];

extern bool catalog_has_objects(Oid catalog, CatalogScope scope);
extern Oid	catalog_referred_to(Oid catalog, const char *column, bool *is_array);

/* ---- catalog_scan.c ---- */

/* An object, as the key of a search, and whose it is. */
typedef struct CatalogKey
{
	Oid			classid;
	Oid			objid;
	int			owner;			/* the caller's; not looked at here */
} CatalogKey;

/* Called for each row found; `key` is that of the array given. */
typedef void (*CatalogRowCallback) (HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);

extern bool catalog_scan_class_first(const CatalogLookup *lookup);
extern void catalog_scan(const CatalogLookup *lookup, CatalogKey *keys, int nkeys,
						 CatalogRowCallback callback, void *arg);
extern void catalog_scan_as_of(Snapshot snapshot, const CatalogLookup *lookup, CatalogKey *keys,
							   int nkeys, CatalogRowCallback callback, void *arg);

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

#endif							/* PGBILLION_CATALOG_ROWS_H */
