/*-------------------------------------------------------------------------
 *
 * notes.c
 *	  Notes about objects of the planner's: notes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "vector/plan/notes.h"

#define BUCKETS 1024

static dlist_head notes[BUCKETS];	/* zero: empty */

static dlist_head *
bucket_of(NoteKind kind, const void *about)
{
	return &notes[murmurhash32((uint32) ((uintptr_t) about >> 3) + kind) % BUCKETS];
}

/* The note of a kind about an object, or NULL. */
void *
find_note(NoteKind kind, const void *about)
{
	dlist_head *bucket = bucket_of(kind, about);
	dlist_iter	iter;

	dlist_foreach(iter, bucket)
	{
		Note	   *note = dlist_container(Note, node, iter.cur);

		if (note->about == about && note->kind == kind)
			return note;
	}
	return NULL;
}

/* The object's context is going. */
static void
forget(void *arg)
{
	dlist_delete(&((Note *) arg)->node);
}

/* Make the note of a kind about an object that is a chunk of memory: there must be none. The rest of it is zero. */
void *
make_note(NoteKind kind, void *about, Size size)
{
	MemoryContext context = GetMemoryChunkContext(about);
	Note	   *note = MemoryContextAllocZero(context, size);

	Assert(size >= sizeof(Note) && find_note(kind, about) == NULL);
	note->about = about;
	note->kind = kind;
	note->callback.func = forget;
	note->callback.arg = note;
	dlist_push_head(bucket_of(kind, about), &note->node);
	MemoryContextRegisterResetCallback(context, &note->callback);

	return note;
}
