/*-------------------------------------------------------------------------
 *
 * notes.c
 *	  Notes about objects of the planner's: notes.h.
 *
 * Each query that is being planned has a table of its own, in its memory
 * context. When that goes, so does the table: there is one callback for all
 * notes, of which a search of joins makes thousands.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "vector/plan/notes.h"

/* What is known of an object. */
typedef struct Entry
{
	const void *about;
	void	   *notes[NOTE_KINDS];
	char		status;
} Entry;

#define SH_PREFIX entries
#define SH_ELEMENT_TYPE Entry
#define SH_KEY_TYPE const void *
#define SH_KEY about
#define SH_HASH_KEY(tb, key) murmurhash32((uint32) ((uintptr_t) (key) >> 3))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DEFINE
#define SH_DECLARE
#include "lib/simplehash.h"

/* The notes of a query. */
typedef struct Notebook
{
	dlist_node	node;
	PlannerInfo *root;
	entries_hash *entries;
	MemoryContextCallback callback;
} Notebook;

/* Of all queries that are being planned: subqueries, and those of functions that the planner calls. */
static dlist_head notebooks = DLIST_STATIC_INIT(notebooks);

/* The query's context is going. */
static void
forget(void *arg)
{
	dlist_delete(&((Notebook *) arg)->node);
}

static Notebook *
make_notebook(PlannerInfo *root)
{
	Notebook   *made = MemoryContextAllocZero(root->planner_cxt, sizeof(Notebook));

	made->root = root;
	made->entries = entries_create(root->planner_cxt, 64, NULL);
	made->callback.func = forget;
	made->callback.arg = made;
	dlist_push_head(&notebooks, &made->node);
	MemoryContextRegisterResetCallback(root->planner_cxt, &made->callback);

	return made;
}

/* The notebook of a query, or NULL. The one that was asked for last comes first. */
static Notebook *
find_notebook(PlannerInfo *root)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &notebooks)
	{
		Notebook   *found = dlist_container(Notebook, node, iter.cur);

		if (found->root == root)
		{
			dlist_move_head(&notebooks, &found->node);
			return found;
		}
	}
	return NULL;
}

/* The note of a kind about an object, or NULL. */
void *
find_note(PlannerInfo *root, NoteKind kind, const void *about)
{
	Notebook   *notebook = find_notebook(root);
	Entry	   *entry = notebook == NULL ? NULL : entries_lookup(notebook->entries, about);

	return entry == NULL ? NULL : entry->notes[kind];
}

/* Make the note of a kind about an object, of which there is none: zero. */
void *
make_note(PlannerInfo *root, NoteKind kind, const void *about, Size size)
{
	Notebook   *notebook = find_notebook(root);
	void	   *made = MemoryContextAllocZero(root->planner_cxt, size);
	Entry	   *entry;
	bool		found;

	if (notebook == NULL)
		notebook = make_notebook(root);
	entry = entries_insert(notebook->entries, about, &found);
	if (!found)
		memset(entry->notes, 0, sizeof(entry->notes));
	Assert(entry->notes[kind] == NULL);
	entry->notes[kind] = made;

	return made;
}
