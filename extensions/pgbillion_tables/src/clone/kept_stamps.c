/*-------------------------------------------------------------------------
 *
 * kept_stamps.c
 *	  Stamps of schemas kept from call to call, in a table of the extension.
 *
 * A stamp is for one template, one role and the same options. It is as good
 * as commands would be as long as nothing has changed that they depend on,
 * the versions of server and library included: see template_version.c.
 *
 * A role that can write to the table could have any catalog row written by it, and
 * privileges on it can be given away (by pg_write_all_data, too). So what is
 * kept is signed, with a secret of the cluster that SQL does not show.
 *
 * The table is the extension's and its owner a superuser, or it is not read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catversion.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_control.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_tablespace.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "common/hmac.h"
#include "common/pg_lzcompress.h"
#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "catalog_rows/catalog_rows.h"
#include "clone/clone.h"

#define EXTENSION "pgbillion_tables"
#define TABLE "prepared_clones"

/* What is signed begins with this; to be changed with what put_stamp() writes. */
#define FORMAT "pgbillion prepared clone, 6"

/* The table's columns. */
enum
{
	COLUMN_TEMPLATE = 1,
	COLUMN_ROLE,
	COLUMN_ACCESS_METHOD,
	COLUMN_REWRITE_BODIES,
	COLUMN_STAMP,
	NCOLUMNS = COLUMN_STAMP
};

/* What a kept stamp begins with. */
typedef struct KeptHeader
{
	uint64		version;
	int32		server_version;
	int32		catalog_version;
	Oid			database;
	uint32		library;		/* hash of its version */
	uint32		length;			/* of all */
	uint32		raw_length;		/* of what follows, when it has been
								 * decompressed */
	uint8		signature[PG_SHA256_DIGEST_LENGTH];
} KeptHeader;

/* A kept stamp as it is read. */
typedef struct Reader
{
	const char *at;
	const char *end;
} Reader;

/* Bytes that are written as what differs from the ones before them. */
typedef struct Bytes
{
	const char *bytes;
	int			length;
} Bytes;

/* What comes before those of a row's header that change from row to row, and are set when it is inserted. */
#define ROW_START offsetof(HeapTupleHeaderData, t_infomask2)

/* Bytes that stay the same for so long are not written; the two lengths take as many. */
#define LEAST_SAME 4

static Relation open_table(LOCKMODE lockmode, bool wait);
static NameData access_method_of(const CloneOptions *options);
static bool is_row_of(Relation rel, HeapTuple tuple, Oid template, const CloneOptions *options);
static void fill_header(KeptHeader *header, uint32 length, uint32 raw_length, uint64 version);
static bool sign(KeptHeader *header, Oid template, const CloneOptions *options, const char *payload);
static bool lock_outside(const Stamp *stamp);
static bool is_there(Oid classid, Oid objid);
static void put_stamp(StringInfo buf, const Stamp *stamp);
static Stamp *get_stamp(Reader *reader);
static void put_row(StringInfo buf, const StampRow *row, Bytes *last_image, Bytes *last_patches);
static void get_row(Reader *reader, StampRow *row, Bytes *last_image, Bytes *last_patches);
static void put_changes(StringInfo buf, Bytes *last, const char *bytes, int length);
static void get_changes(Reader *reader, Bytes *last, char *bytes, int length);
static void put_int(StringInfo buf, int value);
static void put_string(StringInfo buf, const char *text);
static int	get_int(Reader *reader);
static int	get_count(Reader *reader);
static const char *get_bytes(Reader *reader, Size length);
static void *get_array(Reader *reader, int n, Size size);
static Reader decompress(const char *payload, int length, int raw_length);

/* ---- the table ---- */

/*
 * The kept stamp for clones of the template by the current role, if it holds
 * now, else NULL. Expects that the template and its relations are locked:
 * otherwise the stamp holds no longer than this call. Locks what clones refer
 * to outside of the template, as the commands would, until the end of the
 * transaction.
 */
Stamp *
kept_stamp_find(Oid template, const CloneOptions *options)
{
	Relation	rel = open_table(AccessShareLock, true);
	TableScanDesc scan;
	HeapTuple	tuple;
	Stamp	   *stamp = NULL;

	if (rel == NULL)
		return NULL;
	scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL, 0);
	while (stamp == NULL && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Datum		value;
		bytea	   *bytes;
		KeptHeader	header;
		KeptHeader	wanted;
		const char *payload;
		Reader		reader;

		if (!is_row_of(rel, tuple, template, options))
			continue;
		value = heap_getattr(tuple, COLUMN_STAMP, RelationGetDescr(rel), &isnull);
		if (isnull)
			continue;
		bytes = DatumGetByteaPP(value);
		if (VARSIZE_ANY_EXHDR(bytes) < sizeof(KeptHeader))
			continue;
		memcpy(&header, VARDATA_ANY(bytes), sizeof(KeptHeader));
		payload = VARDATA_ANY(bytes) + sizeof(KeptHeader);
		fill_header(&wanted, VARSIZE_ANY_EXHDR(bytes), header.raw_length, header.version);
		if (!sign(&wanted, template, options, payload) ||
			memcmp(&header, &wanted, sizeof(KeptHeader)) != 0)
			continue;

		reader = decompress(payload, header.length - sizeof(KeptHeader), header.raw_length);
		stamp = get_stamp(&reader);
		if (!lock_outside(stamp) || template_version_of_clones(template, NULL) != header.version)
		{
			ereport(DEBUG1,
					(errmsg("what clones of template \"%s\" depend on has changed since they were prepared",
							get_namespace_name(template))));
			stamp = NULL;
			break;
		}
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return stamp;
}

/*
 * Keep the stamp, for the current role, in place of what there is for it; and
 * forget those of templates that are gone. Expects that the template is
 * locked. Without `wait`, false if the table is not there or somebody else's
 * just now.
 */
bool
kept_stamp_store(Oid template, const CloneOptions *options, const char *bytes, int length, bool wait)
{
	Relation	rel = open_table(ShareRowExclusiveLock, wait);
	Snapshot	snapshot;
	TableScanDesc scan;
	HeapTuple	tuple;
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS] = {false};
	NameData	name = access_method_of(options);
	bytea	   *value = palloc(length + VARHDRSZ);

	if (rel == NULL && !wait)
		return false;
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the table %s.%s is not the extension's, or its owner is no superuser", EXTENSION, TABLE),
				 errhint("Create the extension anew.")));

	/* what another session has kept while this one waited is seen */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = table_beginscan(rel, snapshot, 0, NULL, 0);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Oid			other = DatumGetObjectId(heap_getattr(tuple, COLUMN_TEMPLATE, RelationGetDescr(rel), &isnull));

		if (is_row_of(rel, tuple, template, options) ||
			!SearchSysCacheExists1(NAMESPACEOID, ObjectIdGetDatum(other)))
			simple_heap_delete(rel, &tuple->t_self);
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);

	SET_VARSIZE(value, length + VARHDRSZ);
	memcpy(VARDATA(value), bytes, length);
	values[COLUMN_TEMPLATE - 1] = ObjectIdGetDatum(template);
	values[COLUMN_ROLE - 1] = ObjectIdGetDatum(GetUserId());
	values[COLUMN_ACCESS_METHOD - 1] = NameGetDatum(&name);
	values[COLUMN_REWRITE_BODIES - 1] = BoolGetDatum(options->rewrite_bodies);
	values[COLUMN_STAMP - 1] = PointerGetDatum(value);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	simple_heap_insert(rel, tuple);
	CommandCounterIncrement();
	table_close(rel, NoLock);
	return true;
}

/*
 * The bytes to be kept of a stamp, with the version of what it was made
 * of; NULL if they cannot be signed. palloc'd.
 */
char *
kept_stamp_bytes(Oid template, const CloneOptions *options, const Stamp *stamp,
				 uint64 version, int *length)
{
	StringInfoData buf;
	KeptHeader	header;
	char	   *result;
	int			compressed;

	initStringInfo(&buf);
	put_stamp(&buf, stamp);
	result = palloc(sizeof(KeptHeader) + PGLZ_MAX_OUTPUT(buf.len));
	compressed = pglz_compress(buf.data, buf.len, result + sizeof(KeptHeader), PGLZ_strategy_always);
	if (compressed < 0)
	{
		/* as it is */
		memcpy(result + sizeof(KeptHeader), buf.data, buf.len);
		compressed = buf.len;
	}
	*length = sizeof(KeptHeader) + compressed;
	fill_header(&header, *length, buf.len, version);
	if (!sign(&header, template, options, result + sizeof(KeptHeader)))
		return NULL;
	memcpy(result, &header, sizeof(KeptHeader));
	return result;
}

/* The table, locked; NULL if it is not to be trusted, or, without `wait`, if it cannot be locked at once. */
static Relation
open_table(LOCKMODE lockmode, bool wait)
{
	Oid			extension = get_extension_oid(EXTENSION, true);
	Oid			schema = get_namespace_oid(EXTENSION, true);
	Oid			relid = OidIsValid(schema) ? get_relname_relid(TABLE, schema) : InvalidOid;
	Relation	rel;

	if (!OidIsValid(relid) || !OidIsValid(extension))
		return NULL;
	if (!wait && !ConditionalLockRelationOid(relid, lockmode))
		return NULL;
	rel = table_open(relid, wait ? lockmode : NoLock);
	if (getExtensionOfObject(RelationRelationId, relid) != extension ||
		!superuser_arg(rel->rd_rel->relowner) || rel->rd_tableam != GetHeapamTableAmRoutine() ||
		RelationGetDescr(rel)->natts != NCOLUMNS)
	{
		table_close(rel, lockmode);
		return NULL;
	}
	return rel;
}

/* As the table has it. */
static NameData
access_method_of(const CloneOptions *options)
{
	NameData	name;

	namestrcpy(&name, options->access_method == NULL ? "" : options->access_method);
	return name;
}

static bool
is_row_of(Relation rel, HeapTuple tuple, Oid template, const CloneOptions *options)
{
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS];
	NameData	name = access_method_of(options);

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	return !nulls[COLUMN_TEMPLATE - 1] && !nulls[COLUMN_ROLE - 1] && !nulls[COLUMN_ACCESS_METHOD - 1] &&
		!nulls[COLUMN_REWRITE_BODIES - 1] &&
		DatumGetObjectId(values[COLUMN_TEMPLATE - 1]) == template &&
		DatumGetObjectId(values[COLUMN_ROLE - 1]) == GetUserId() &&
		strcmp(NameStr(*DatumGetName(values[COLUMN_ACCESS_METHOD - 1])), NameStr(name)) == 0 &&
		DatumGetBool(values[COLUMN_REWRITE_BODIES - 1]) == options->rewrite_bodies;
}

static void
fill_header(KeptHeader *header, uint32 length, uint32 raw_length, uint64 version)
{
	memset(header, 0, sizeof(KeptHeader));
	header->version = version;
	header->server_version = PG_VERSION_NUM;
	header->catalog_version = CATALOG_VERSION_NO;
	header->database = MyDatabaseId;
	header->library = hash_bytes((const unsigned char *) PGBILLION_VERSION, strlen(PGBILLION_VERSION));
	header->length = length;
	header->raw_length = raw_length;
}

/*
 * Sign a header that is complete otherwise, and what follows it, for the
 * current role. False if that cannot be done: where memory lacks as a session
 * uses OpenSSL for the first time, there is no HMAC until it ends.
 */
static bool
sign(KeptHeader *header, Oid template, const CloneOptions *options, const char *payload)
{
	Oid			whose[] = {template, GetUserId()};
	NameData	name = access_method_of(options);
	pg_hmac_ctx *context = pg_hmac_create(PG_SHA256);
	bool		signed_ = context != NULL &&
		pg_hmac_init(context, (uint8 *) GetMockAuthenticationNonce(), MOCK_AUTH_NONCE_LEN) >= 0 &&
		pg_hmac_update(context, (const uint8 *) FORMAT, sizeof(FORMAT)) >= 0 &&
		pg_hmac_update(context, (uint8 *) whose, sizeof(whose)) >= 0 &&
		pg_hmac_update(context, (uint8 *) &name, sizeof(name)) >= 0 &&
		pg_hmac_update(context, (const uint8 *) &options->rewrite_bodies, sizeof(bool)) >= 0 &&
		pg_hmac_update(context, (uint8 *) header, offsetof(KeptHeader, signature)) >= 0 &&
		pg_hmac_update(context, (const uint8 *) payload, header->length - sizeof(KeptHeader)) >= 0 &&
		pg_hmac_final(context, header->signature, sizeof(header->signature)) >= 0;

	if (!signed_)
		ereport(DEBUG1,
				(errmsg("a kept stamp could not be signed: %s", pg_hmac_error(context))));
	pg_hmac_free(context);
	return signed_;
}

/* ---- locks ---- */

/*
 * Lock what clones refer to outside of the template, as commands do, until the
 * end of the transaction; false if a role or tablespace is gone.
 */
static bool
lock_outside(const Stamp *stamp)
{
	for (int i = 0; i < stamp->noutside; i++)
		LockRelationOid(stamp->outside[i].relid, stamp->outside[i].lockmode);

	for (int i = 0; i < stamp->nrows[CATALOG_SHDEPEND]; i++)
	{
		Form_pg_shdepend form = (Form_pg_shdepend) GETSTRUCT(stamp->rows[CATALOG_SHDEPEND][i].image);

		LockSharedObject(form->refclassid, form->refobjid, 0, AccessShareLock);
		if (!is_there(form->refclassid, form->refobjid))
			return false;
	}
	return true;
}

static bool
is_there(Oid classid, Oid objid)
{
	switch (classid)
	{
		case AuthIdRelationId:
			return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(objid));
		case TableSpaceRelationId:
			return SearchSysCacheExists1(TABLESPACEOID, ObjectIdGetDatum(objid));
		default:
			return false;
	}
}

/* ---- as bytes ---- */

static void
put_stamp(StringInfo buf, const Stamp *stamp)
{
	put_int(buf, stamp->nmembers);
	appendBinaryStringInfo(buf, (char *) stamp->members, stamp->nmembers * sizeof(StampMember));
	put_int(buf, stamp->nfiles);
	for (int i = 0; i < stamp->nfiles; i++)
		file_image_put(buf, stamp->files[i]);
	put_int(buf, stamp->ntexts);
	for (int i = 0; i < stamp->ntexts; i++)
	{
		const OidTemplate *text = stamp->texts[i];

		put_int(buf, text->nplaces);
		appendBinaryStringInfo(buf, (char *) text->members, text->nplaces * sizeof(int));
		appendBinaryStringInfo(buf, (char *) text->as_bytes, text->nplaces * sizeof(bool));
		for (int j = 0; j <= text->nplaces; j++)
			put_string(buf, text->pieces[j]);
		put_int(buf, text->nitems);
		appendBinaryStringInfo(buf, (char *) text->items, text->nitems * sizeof(PackedItem));
	}
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		Bytes		last_image = {0};
		Bytes		last_patches = {0};

		put_int(buf, stamp->nrows[i]);
		for (int j = 0; j < stamp->nrows[i]; j++)
			put_row(buf, &stamp->rows[i][j], &last_image, &last_patches);
	}
	put_int(buf, stamp->noutside);
	appendBinaryStringInfo(buf, (char *) stamp->outside, stamp->noutside * sizeof(StampOutside));
	put_int(buf, list_length(stamp->contents));
	for (int i = 0; i < list_length(stamp->contents); i++)
		put_string(buf, list_nth(stamp->contents, i));
	put_string(buf, stamp->functions == NULL ? "" : stamp->functions);
}

/* In the current memory context. */
static Stamp *
get_stamp(Reader *reader)
{
	Stamp	   *stamp = palloc0(sizeof(Stamp));
	int			ncontents;

	stamp->nmembers = get_count(reader);
	stamp->members = get_array(reader, stamp->nmembers, sizeof(StampMember));
	stamp->nfiles = get_count(reader);
	stamp->files = palloc(Max(1, stamp->nfiles) * sizeof(FileImage *));
	for (int i = 0; i < stamp->nfiles; i++)
		stamp->files[i] = file_image_get(&reader->at, reader->end);
	stamp->ntexts = get_count(reader);
	stamp->texts = palloc(Max(1, stamp->ntexts) * sizeof(OidTemplate *));
	for (int i = 0; i < stamp->ntexts; i++)
	{
		OidTemplate *text = palloc(sizeof(OidTemplate));

		text->nplaces = get_count(reader);
		text->members = get_array(reader, text->nplaces, sizeof(int));
		text->as_bytes = get_array(reader, text->nplaces, sizeof(bool));
		text->pieces = palloc((text->nplaces + 1) * sizeof(char *));
		for (int j = 0; j <= text->nplaces; j++)
			text->pieces[j] = pstrdup(get_bytes(reader, get_count(reader)));
		text->nitems = get_count(reader);
		text->items = get_array(reader, text->nitems, sizeof(PackedItem));
		stamp->texts[i] = text;
	}
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		Bytes		last_image = {0};
		Bytes		last_patches = {0};

		stamp->nrows[i] = get_count(reader);
		stamp->rows[i] = palloc0(Max(1, stamp->nrows[i]) * sizeof(StampRow));
		for (int j = 0; j < stamp->nrows[i]; j++)
			get_row(reader, &stamp->rows[i][j], &last_image, &last_patches);
	}
	stamp->noutside = get_count(reader);
	stamp->outside = get_array(reader, stamp->noutside, sizeof(StampOutside));
	ncontents = get_count(reader);
	for (int i = 0; i < ncontents; i++)
		stamp->contents = lappend(stamp->contents, pstrdup(get_bytes(reader, get_count(reader))));
	stamp->functions = pstrdup(get_bytes(reader, get_count(reader)));
	if (stamp->functions[0] == '\0')
		stamp->functions = NULL;
	return stamp;
}

/* Rows of a catalog differ in few bytes. */
static void
put_row(StringInfo buf, const StampRow *row, Bytes *last_image, Bytes *last_patches)
{
	put_int(buf, row->image->t_len);
	put_changes(buf, last_image, (char *) row->image->t_data + ROW_START, row->image->t_len - ROW_START);
	put_int(buf, row->npatches);
	put_changes(buf, last_patches, (char *) row->patches, row->npatches * sizeof(StampPatch));
	put_int(buf, row->has_trees);
}

static void
get_row(Reader *reader, StampRow *row, Bytes *last_image, Bytes *last_patches)
{
	int			length = get_count(reader);

	if (length < SizeofHeapTupleHeader || length > MaxAllocSize - HEAPTUPLESIZE)
		elog(ERROR, "a kept stamp has a row of %d bytes", length);
	row->image = palloc(HEAPTUPLESIZE + length);
	memset(row->image, 0, HEAPTUPLESIZE + ROW_START);
	row->image->t_len = length;
	row->image->t_data = (HeapTupleHeader) ((char *) row->image + HEAPTUPLESIZE);
	get_changes(reader, last_image, (char *) row->image->t_data + ROW_START, length - ROW_START);

	row->npatches = get_count(reader);
	if (row->npatches > MaxAllocSize / sizeof(StampPatch))
		elog(ERROR, "a kept stamp has a row with %d places", row->npatches);
	row->patches = palloc(Max(1, row->npatches) * sizeof(StampPatch));
	get_changes(reader, last_patches, (char *) row->patches, row->npatches * sizeof(StampPatch));
	row->has_trees = get_int(reader) != 0;
}

/*
 * Append bytes, without those that stand in *last at the same place: how many
 * are the same, how many follow that are not, and those. They become *last.
 */
static void
put_changes(StringInfo buf, Bytes *last, const char *bytes, int length)
{
	int			common = Min(length, last->length);
	int			at = 0;

	while (at < length)
	{
		int			begin;
		int			nsame = 0;
		uint16		lengths[2];

		for (begin = at; begin < common && begin - at < PG_UINT16_MAX; begin++)
			if (bytes[begin] != last->bytes[begin])
				break;
		lengths[0] = begin - at;
		for (at = begin; at < length && at - begin < PG_UINT16_MAX && nsame < LEAST_SAME; at++)
			nsame = at < common && bytes[at] == last->bytes[at] ? nsame + 1 : 0;
		/* they begin what comes next */
		if (nsame == LEAST_SAME)
			at -= nsame;
		lengths[1] = at - begin;
		appendBinaryStringInfo(buf, (char *) lengths, sizeof(lengths));
		appendBinaryStringInfo(buf, bytes + begin, lengths[1]);
	}
	last->bytes = bytes;
	last->length = length;
}

static void
get_changes(Reader *reader, Bytes *last, char *bytes, int length)
{
	int			at = 0;

	while (at < length)
	{
		uint16		lengths[2];

		memcpy(lengths, get_bytes(reader, sizeof(lengths)), sizeof(lengths));
		if (lengths[0] + lengths[1] == 0 || lengths[0] + lengths[1] > length - at ||
			at + lengths[0] > Max(at, last->length))
			elog(ERROR, "a kept stamp has a row that is not the last one's");
		if (lengths[0] > 0)
			memcpy(bytes + at, last->bytes + at, lengths[0]);
		at += lengths[0];
		memcpy(bytes + at, get_bytes(reader, lengths[1]), lengths[1]);
		at += lengths[1];
	}
	last->bytes = bytes;
	last->length = length;
}

/* Reads what kept_stamp_bytes() has compressed, unless that made it no shorter. */
static Reader
decompress(const char *payload, int length, int raw_length)
{
	Reader		reader = {payload, payload + raw_length};

	if (length != raw_length)
	{
		char	   *raw = palloc(raw_length);

		if (pglz_decompress(payload, length, raw, raw_length, true) != raw_length)
			elog(ERROR, "a kept stamp cannot be decompressed");
		reader.at = raw;
		reader.end = raw + raw_length;
	}
	return reader;
}

static void
put_int(StringInfo buf, int value)
{
	appendBinaryStringInfo(buf, (char *) &value, sizeof(int));
}

static void
put_string(StringInfo buf, const char *text)
{
	put_int(buf, strlen(text) + 1);
	appendBinaryStringInfo(buf, text, strlen(text) + 1);
}

static int
get_int(Reader *reader)
{
	int			value;

	memcpy(&value, get_bytes(reader, sizeof(int)), sizeof(int));
	return value;
}

static int
get_count(Reader *reader)
{
	int			n = get_int(reader);

	if (n < 0)
		elog(ERROR, "a kept stamp has a negative count");
	return n;
}

static const char *
get_bytes(Reader *reader, Size length)
{
	const char *at = reader->at;

	if (length > (Size) (reader->end - reader->at))
		elog(ERROR, "a kept stamp is too short");
	reader->at += length;
	return at;
}

/* A copy that is aligned. */
static void *
get_array(Reader *reader, int n, Size size)
{
	const char *bytes = get_bytes(reader, n * size);
	void	   *result = palloc(Max(1, n * size));

	memcpy(result, bytes, n * size);
	return result;
}
