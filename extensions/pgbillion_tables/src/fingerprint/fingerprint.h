/*-------------------------------------------------------------------------
 *
 * fingerprint.h
 *	  Fingerprints of whole schemas, equal where the schemas are.
 *
 *	schemas.c		the SQL function: which rows are about which schema
 *	row.c			a catalog row in a form that says nothing of the schema
 *	text.c			the same for texts and stored expressions
 *	node_tree.c		stored expressions that mean the same, in one form
 *	members.c		what is in a schema
 *
 * The rows about a schema and what is in it are written in a form in which
 * each OID of a member is replaced by what the member is: a digest of its
 * name, and of the table or type that it is part of. The fingerprint is the
 * sum of the digests of all rows, so that their order does not matter.
 *
 * Schemas with the same fingerprint are the same. Those with different ones
 * may be, too: attribute numbers of dropped columns count here, and whatever
 * is not known to be an OID is taken as it is. Who wants to know reads the
 * definitions of one schema of each fingerprint; see tenants/sql/objects.sql.
 * So a column of a catalog is left out only if it says nothing about the
 * definition, and new ones of later majors are not.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_FINGERPRINT_H
#define PGBILLION_FINGERPRINT_H

#include "lib/stringinfo.h"
#include "utils/hsearch.h"
#include "utils/rel.h"

typedef struct Digest
{
	uint64		low;
	uint64		high;
} Digest;

/* What is in a schema, by catalog and OID. */
typedef struct FingerprintMember
{
	Oid			classid;
	Oid			objid;
	int			schema;			/* in schemas[] */
	char		kind;			/* typtype, TYPE_OF_ROW, TYPE_ARRAY; 0 if it
								 * is no type */
	Oid			element;		/* of an array type */
	Digest		identity;
} FingerprintMember;

#define TYPE_OF_ROW 'R'
#define TYPE_ARRAY 'A'

typedef struct FingerprintedSchema
{
	Oid			oid;
	const char *name;			/* NULL if there is no such schema */
	const char *quoted;			/* as an identifier, with a dot */
	const char *token;			/* as in stored expressions */
	Digest		sum;
	int64		tables;
	bool		unknown;		/* has objects that are not looked at? */
} FingerprintedSchema;

typedef struct Fingerprinter
{
	int			nschemas;
	FingerprintedSchema *schemas;
	HTAB	   *members;		/* of FingerprintMember */
	StringInfoData row;			/* the current row, without OIDs */
	MemoryContext row_context;	/* reset with each row */
	struct RowShape *shapes;	/* see row.c */
	int			nshapes;
	Oid			lazy_heap;		/* the access method, or invalid */
	bool		with_tablespaces;	/* are these part of a definition? */
} Fingerprinter;

/* ---- schemas.c ---- */

extern bool fingerprints_are_same(Oid schema, Oid other);

/* ---- members.c ---- */

extern Digest fingerprint_digest(const char *bytes, int length);
extern FingerprintMember *fingerprint_find(const Fingerprinter *printer, int schema, Oid classid, Oid objid);
extern void fingerprint_put_oid(Fingerprinter *printer, int schema, Oid classid, Oid oid);

/* ---- row.c ---- */

extern void fingerprint_put_row(Fingerprinter *printer, int schema, Relation rel, HeapTuple tuple);

/* ---- text.c ---- */

extern char *fingerprint_token(const char *name);
extern void fingerprint_put_body(Fingerprinter *printer, int schema, const char *bytes, int length);
extern void fingerprint_put_bytes(Fingerprinter *printer, int schema, const char *bytes, int length);
extern void fingerprint_put_name(Fingerprinter *printer, int schema, const char *name);
extern void fingerprint_put_path(Fingerprinter *printer, int schema, const List *names);
extern void fingerprint_put_tree(Fingerprinter *printer, int schema, const char *tree);

/* ---- node_tree.c ---- */

extern const char *fingerprint_settle_tree(const char *tree);

#endif							/* PGBILLION_FINGERPRINT_H */
