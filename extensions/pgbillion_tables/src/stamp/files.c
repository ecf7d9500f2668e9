/*-------------------------------------------------------------------------
 *
 * files.c
 *	  Files of stamped relations, copied from the prototype's.
 *
 * A relation that nobody has written to yet looks the same for every table: a
 * heap has no page at all, an index those its build leaves on an empty table,
 * a sequence its one page. None of them says whose it is, so the prototype's
 * pages are every table's, for any index access method.
 *
 * What is made here is made as RelationCreateStorage() does: logged, deleted
 * on abort, on disk before a commit can be relied on. Only the shortcut of
 * wal_level = minimal is not taken (no WAL, and a sync of each file at
 * commit): nothing but the few pages copied here is ever written that way,
 * and the relation cache entries of stamped relations, built from the
 * catalog, would not know of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "stamp/stamp.h"

/* An index on an empty table that needs more pages than this is no stamp's. */
#define MAX_FORK_BLOCKS 1024

typedef struct ForkImage
{
	BlockNumber nblocks;
	char	   *pages;			/* nblocks times BLCKSZ, with their checksums */
	bool	   *standard;		/* is the page's hole all zeros? */
} ForkImage;

struct FileImage
{
	bool		permanent;		/* else unlogged */
	ForkImage	main;
	ForkImage	init;			/* unlogged relations only */
};

static bool is_fork_of(const ForkImage *image, SMgrRelation smgr, ForkNumber forknum);
static bool is_fork_of_relation(const ForkImage *image, Relation rel, ForkNumber forknum);
static bool forks_equal(const ForkImage *one, const ForkImage *other);
static void free_fork(ForkImage *image);
static void put_fork(StringInfo buf, const ForkImage *image);
static void get_fork(ForkImage *image, const char **at, const char *end);
static void get_bytes(void *bytes, Size length, const char **at, const char *end);
static void capture_fork(Relation rel, ForkNumber forknum, ForkImage *image);
static void write_fork(SMgrRelation smgr, RelFileLocator *locator, ForkNumber forknum,
					   const ForkImage *image, bool logged);

/*
 * Copy the forks of a relation that was created in this transaction, into the
 * current memory context.
 */
FileImage *
file_image_capture(Relation rel)
{
	FileImage  *image = palloc0(sizeof(FileImage));

	image->permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	capture_fork(rel, MAIN_FORKNUM, &image->main);
	if (!image->permanent)
		capture_fork(rel, INIT_FORKNUM, &image->init);

	return image;
}

static void
capture_fork(Relation rel, ForkNumber forknum, ForkImage *image)
{
	image->nblocks = RelationGetNumberOfBlocksInFork(rel, forknum);
	if (image->nblocks > MAX_FORK_BLOCKS)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" has %u blocks before its table has a row",
						RelationGetRelationName(rel), image->nblocks),
				 errhint("Drop the index from the template.")));
	if (image->nblocks == 0)
		return;

	image->pages = palloc((Size) image->nblocks * BLCKSZ);
	image->standard = palloc(image->nblocks * sizeof(bool));

	for (BlockNumber blkno = 0; blkno < image->nblocks; blkno++)
	{
		Buffer		buffer = ReadBufferExtended(rel, forknum, blkno, RBM_NORMAL, NULL);
		char	   *copy = image->pages + (Size) blkno * BLCKSZ;
		PageHeader	header = (PageHeader) copy;
		bool		standard;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		memcpy(copy, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);

		/*
		 * WAL leaves out the hole of a standard page. An access method that
		 * keeps something there does not say so; the bytes do.
		 */
		standard = header->pd_lower >= SizeOfPageHeaderData &&
			header->pd_lower <= header->pd_upper && header->pd_upper <= BLCKSZ;
		if (standard && header->pd_lower < header->pd_upper)
			standard = copy[header->pd_lower] == 0 &&
				memcmp(copy + header->pd_lower, copy + header->pd_lower + 1,
					   header->pd_upper - header->pd_lower - 1) == 0;
		image->standard[blkno] = standard;
		PageSetChecksum(copy, blkno);
	}
}

/*
 * Make the files of a relation. May raise an error (disk full); what was made
 * by then goes with the transaction.
 */
void
file_image_create(const FileImage *image, RelFileLocator locator)
{
	SMgrRelation smgr;

	/* 'unlogged' keeps it from planning a sync at commit; see the top */
	smgr = RelationCreateStorage(locator, RELPERSISTENCE_UNLOGGED, true);

	if (image->permanent)
		log_smgrcreate(&locator, MAIN_FORKNUM);
	else
	{
		smgrcreate(smgr, INIT_FORKNUM, false);
		log_smgrcreate(&locator, INIT_FORKNUM);
		write_fork(smgr, &locator, INIT_FORKNUM, &image->init, true);

		/* crash recovery copies it, whatever became of the record above */
		if (image->init.nblocks == 0)
			smgrimmedsync(smgr, INIT_FORKNUM);
	}
	write_fork(smgr, &locator, MAIN_FORKNUM, &image->main, image->permanent);

	/*
	 * At most one open file at a time. What stays until the end of the
	 * transaction are some 100 bytes a file in the storage manager (from 17
	 * on) and in its list of files to delete on abort.
	 */
	smgrclose(smgr);
}

/* Whether two relations' files say the same. */
bool
file_image_equal(const FileImage *one, const FileImage *other)
{
	return one->permanent == other->permanent && forks_equal(&one->main, &other->main) &&
		forks_equal(&one->init, &other->init);
}

/* Pages say when they were last written, too. */
static bool
forks_equal(const ForkImage *one, const ForkImage *other)
{
	Size		skipped = offsetof(PageHeaderData, pd_flags);

	if (one->nblocks != other->nblocks)
		return false;
	for (BlockNumber blkno = 0; blkno < one->nblocks; blkno++)
		if (memcmp(one->pages + (Size) blkno * BLCKSZ + skipped,
				   other->pages + (Size) blkno * BLCKSZ + skipped, BLCKSZ - skipped) != 0)
			return false;
	return true;
}

/* Do a relation's files say what those of the image do? */
bool
file_image_is_of_relation(const FileImage *image, Relation rel)
{
	return image->permanent == (rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT) &&
		is_fork_of_relation(&image->main, rel, MAIN_FORKNUM) &&
		(image->permanent || is_fork_of_relation(&image->init, rel, INIT_FORKNUM));
}

static bool
is_fork_of_relation(const ForkImage *image, Relation rel, ForkNumber forknum)
{
	Size		skipped = offsetof(PageHeaderData, pd_flags);
	bool		same = RelationGetNumberOfBlocksInFork(rel, forknum) == image->nblocks;

	for (BlockNumber blkno = 0; blkno < image->nblocks && same; blkno++)
	{
		Buffer		buffer = ReadBufferExtended(rel, forknum, blkno, RBM_NORMAL, NULL);

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		same = memcmp((char *) BufferGetPage(buffer) + skipped,
					  image->pages + (Size) blkno * BLCKSZ + skipped, BLCKSZ - skipped) == 0;
		UnlockReleaseBuffer(buffer);
	}
	return same;
}

/* Has a relation the files of the image? Only what has been written to them counts. */
bool
file_image_is_of(const FileImage *image, RelFileLocator locator)
{
	SMgrRelation smgr = smgropen(locator, INVALID_PROC_NUMBER);
	bool		same = is_fork_of(&image->main, smgr, MAIN_FORKNUM) &&
		(image->permanent || is_fork_of(&image->init, smgr, INIT_FORKNUM));

	smgrclose(smgr);
	return same;
}

static bool
is_fork_of(const ForkImage *image, SMgrRelation smgr, ForkNumber forknum)
{
	Size		skipped = offsetof(PageHeaderData, pd_flags);

	if (!smgrexists(smgr, forknum) || smgrnblocks(smgr, forknum) != image->nblocks)
		return false;
	for (BlockNumber blkno = 0; blkno < image->nblocks; blkno++)
	{
		IOAlignedBlock page;

		smgrread(smgr, forknum, blkno, page.data);
		if (memcmp(page.data + skipped, image->pages + (Size) blkno * BLCKSZ + skipped, BLCKSZ - skipped) != 0)
			return false;
	}
	return true;
}

void
file_image_free(FileImage *image)
{
	free_fork(&image->main);
	free_fork(&image->init);
	pfree(image);
}

static void
free_fork(ForkImage *image)
{
	if (image->pages != NULL)
	{
		pfree(image->pages);
		pfree(image->standard);
	}
}

/* Append the image as bytes. */
void
file_image_put(StringInfo buf, const FileImage *image)
{
	appendBinaryStringInfo(buf, (char *) &image->permanent, sizeof(bool));
	put_fork(buf, &image->main);
	put_fork(buf, &image->init);
}

static void
put_fork(StringInfo buf, const ForkImage *image)
{
	appendBinaryStringInfo(buf, (char *) &image->nblocks, sizeof(BlockNumber));
	if (image->nblocks == 0)
		return;
	appendBinaryStringInfo(buf, (char *) image->standard, image->nblocks * sizeof(bool));
	appendBinaryStringInfo(buf, image->pages, image->nblocks * BLCKSZ);
}

/* The image of what file_image_put() has written at *at, which is moved on; palloc'd. */
FileImage *
file_image_get(const char **at, const char *end)
{
	FileImage  *image = palloc0(sizeof(FileImage));

	get_bytes(&image->permanent, sizeof(bool), at, end);
	get_fork(&image->main, at, end);
	get_fork(&image->init, at, end);
	return image;
}

static void
get_fork(ForkImage *image, const char **at, const char *end)
{
	get_bytes(&image->nblocks, sizeof(BlockNumber), at, end);
	if (image->nblocks > MAX_FORK_BLOCKS)
		elog(ERROR, "a kept file has %u blocks", image->nblocks);
	if (image->nblocks == 0)
		return;
	image->standard = palloc(image->nblocks * sizeof(bool));
	image->pages = palloc((Size) image->nblocks * BLCKSZ);
	get_bytes(image->standard, image->nblocks * sizeof(bool), at, end);
	get_bytes(image->pages, (Size) image->nblocks * BLCKSZ, at, end);
	/* they may have been switched on */
	for (BlockNumber blkno = 0; blkno < image->nblocks; blkno++)
		PageSetChecksum(image->pages + (Size) blkno * BLCKSZ, blkno);
}

static void
get_bytes(void *bytes, Size length, const char **at, const char *end)
{
	if (length > (Size) (end - *at))
		elog(ERROR, "a kept file is too short");
	memcpy(bytes, *at, length);
	*at += length;
}

/*
 * Each page is written before it is logged. Nobody can see the relation
 * before commit, so that 'WAL before data' is not at stake; and since writing
 * queues the request to sync the file, a checkpoint that begins behind the
 * WAL record, and so will not replay it, syncs the page.
 */
static void
write_fork(SMgrRelation smgr, RelFileLocator *locator, ForkNumber forknum,
		   const ForkImage *image, bool logged)
{
	for (BlockNumber blkno = 0; blkno < image->nblocks; blkno++)
	{
		IOAlignedBlock page;

		memcpy(page.data, image->pages + (Size) blkno * BLCKSZ, BLCKSZ);
		smgrextend(smgr, forknum, blkno, page.data, false);
		if (logged)
			log_newpage(locator, forknum, blkno, page.data, image->standard[blkno]);
	}
}
