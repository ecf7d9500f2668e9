/*-------------------------------------------------------------------------
 *
 * page.c
 *	  Pages of a columnar index, and the types of what is in them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"

#include "column_index/store.h"

#ifdef PGBILLION_TEST_PAUSES
#include "common/hashfn.h"
#include "storage/lock.h"

/* Wait for the advisory lock whose number is the place's hash. */
void
store_pause(const char *place)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, hash_bytes((const unsigned char *) place, strlen(place)), 2);
	(void) LockAcquire(&tag, ShareLock, false, false);
	(void) LockRelease(&tag, ShareLock, false);
}
#endif

/*
 * Begin a page whose content takes `bytes` bytes, all zero. They lie below
 * pd_lower; WAL does not keep what lies above.
 */
void
store_page_init(Page page, Size bytes)
{
	Assert(bytes <= PAGE_BYTES);
	PageInit(page, BLCKSZ, 0);
	((PageHeader) page)->pd_lower = PAGE_START + bytes;
}

void *
store_content(Page page)
{
	return (char *) page + PAGE_START;
}

/*
 * Add a page at the end of the index, pinned and locked exclusively.  Nothing
 * but the one encoder of an index does so.
 */
Buffer
store_extend(Relation index)
{
	bool		lock = !RELATION_IS_LOCAL(index);
	Buffer		buffer;

	if (lock)
		LockRelationForExtension(index, ExclusiveLock);
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, P_NEW, RBM_ZERO_AND_LOCK, NULL);
	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);

	return buffer;
}

/* A page is not what it has to be. */
void
store_corrupted(Relation index, BlockNumber block)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" contains a damaged page at block %u", RelationGetRelationName(index), block),
			 errhint("Please REINDEX it.")));
}

/*
 * Pin and lock a page that must be of one kind; raises an error if it is of
 * another.  Not for data pages: those may have been replaced.
 */
Buffer
store_read(Relation index, BlockNumber block, int lock, uint32 magic)
{
	Buffer		buffer;
	Page		page;

	/* the number is from a page, which may be damaged */
	if (block >= RelationGetNumberOfBlocks(index))
		store_corrupted(index, block);
	buffer = ReadBuffer(index, block);
	LockBuffer(buffer, lock);
	page = BufferGetPage(buffer);
	/* what is above pd_lower would be zeroed by the next change */
	if (PageIsNew(page) || *(uint32 *) store_content(page) != magic || ((PageHeader) page)->pd_lower != BLCKSZ)
		store_corrupted(index, block);

	return buffer;
}

/*
 * The same of a page that is read again and again: looking its buffer up would
 * be most of the work.  *known is the buffer it was in, or InvalidBuffer.
 */
Buffer
store_read_again(Relation index, BlockNumber block, int lock, uint32 magic, Buffer *known)
{
	if (*known != InvalidBuffer && ReadRecentBuffer(index->rd_locator, MAIN_FORKNUM, block, *known))
	{
		LockBuffer(*known, lock);
		return *known;
	}
	*known = store_read(index, block, lock, magic);

	return *known;
}

/* What can be said of the order of a type's values without asking it. */
static ColumnOrder
order_of(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
			return COLUMN_ORDER_INTEGER;
		case FLOAT4OID:
		case FLOAT8OID:
			return COLUMN_ORDER_FLOAT;
		default:
			return COLUMN_NO_ORDER;
	}
}

/*
 * The type by whose equality values of a type are hashed: one by which two
 * values are equal only if the same bytes of them are the same, under any
 * deterministic collation.
 */
static Oid
hashed_as(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case TEXTOID:
		case BPCHAROID:
		case UUIDOID:
			return type;
		case VARCHAROID:
			return TEXTOID;
		default:
			return InvalidOid;
	}
}

/* The type of an index's column, counted from 0.  Domains are of their base type. */
ColumnType
column_type_of(Relation index, int column)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(index), column);
	Oid			base = getBaseType(attribute->atttypid);
	ColumnType	type;

	type.len = attribute->attlen;
	type.byval = attribute->attbyval;
	type.align = attribute->attalign;
	type.numeric = base == NUMERICOID;
	type.order = type.byval ? order_of(base) : COLUMN_NO_ORDER;
	type.is_float = type.order == COLUMN_ORDER_FLOAT;
	type.hashed_as = hashed_as(base);

	return type;
}
