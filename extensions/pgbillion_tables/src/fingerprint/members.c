/*-------------------------------------------------------------------------
 *
 * members.c
 *	  What is in a schema, looked up by catalog and OID.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_namespace.h"
#include "common/hashfn.h"

#include "fingerprint/fingerprint.h"

Digest
fingerprint_digest(const char *bytes, int length)
{
	Digest		digest;

	digest.low = hash_bytes_extended((const unsigned char *) bytes, length, 0);
	digest.high = hash_bytes_extended((const unsigned char *) bytes, length, UINT64CONST(0x9E3779B97F4A7C15));
	return digest;
}

/* A member of the schema, or NULL. */
FingerprintMember *
fingerprint_find(const Fingerprinter *printer, int schema, Oid classid, Oid objid)
{
	Oid			key[] = {classid, objid};
	FingerprintMember *member;

	/* of what initdb makes, schemas are the only members */
	if (objid < FirstNormalObjectId && classid != NamespaceRelationId)
		return NULL;
	member = hash_search(printer->members, key, HASH_FIND, NULL);
	return member != NULL && member->schema == schema ? member : NULL;
}

/* What the OID stands for, if that is in the schema, or else the OID. */
void
fingerprint_put_oid(Fingerprinter *printer, int schema, Oid classid, Oid oid)
{
	const FingerprintMember *member = fingerprint_find(printer, schema, classid, oid);

	appendStringInfoChar(&printer->row, member != NULL ? 'm' : 'o');
	if (member != NULL)
		appendBinaryStringInfo(&printer->row, (const char *) &member->identity, sizeof(Digest));
	else
		appendBinaryStringInfo(&printer->row, (const char *) &oid, sizeof(Oid));
}
