/*-------------------------------------------------------------------------
 *
 * planner_memo.c
 *	  Memos about objects of the planner's: planner_memo.h.
 *
 * Each query that is being planned has a table of its own, in its memory
 * context. When that goes, so does the table: there is one callback for all
 * memos, of which a search of joins makes thousands.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "planner/planner_memo.h"

/* What is known of an object. */
typedef struct Key
{
	const void *about;
	MemoKind	kind;
} Key;

typedef struct Entry
{
	Key			key;
	char		status;
	void	   *memo;
} Entry;

static inline uint32
hash_key(Key key)
{
	/* objects are far apart, by more than there are kinds */
	return murmurhash32((uint32) ((uintptr_t) key.about >> 3) ^ (uint32) key.kind << 27);
}

#define SH_PREFIX entries
#define SH_ELEMENT_TYPE Entry
#define SH_KEY_TYPE Key
#define SH_KEY key
#define SH_HASH_KEY(tb, key) hash_key(key)
#define SH_EQUAL(tb, a, b) ((a).about == (b).about && (a).kind == (b).kind)
#define SH_SCOPE static inline
#define SH_DEFINE
#define SH_DECLARE
#include "lib/simplehash.h"

/* The memos of a query. */
typedef struct MemoTable
{
	dlist_node	node;
	PlannerInfo *root;
	entries_hash *entries;
	MemoryContextCallback callback;
} MemoTable;

/* Of all queries that are being planned: subqueries, and those of functions that the planner calls. */
static dlist_head memo_tables = DLIST_STATIC_INIT(memo_tables);

/* The query's context is going. */
static void
forget(void *arg)
{
	dlist_delete(&((MemoTable *) arg)->node);
}

static MemoTable *
make_memo_table(PlannerInfo *root)
{
	MemoTable  *made = MemoryContextAllocZero(root->planner_cxt, sizeof(MemoTable));

	made->root = root;
	made->entries = entries_create(root->planner_cxt, 64, NULL);
	made->callback.func = forget;
	made->callback.arg = made;
	dlist_push_head(&memo_tables, &made->node);
	MemoryContextRegisterResetCallback(root->planner_cxt, &made->callback);

	return made;
}

/* The memo table of a query, or NULL. The one that was asked for last comes first. */
static MemoTable *
find_memo_table(PlannerInfo *root)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &memo_tables)
	{
		MemoTable  *found = dlist_container(MemoTable, node, iter.cur);

		if (found->root == root)
		{
			dlist_move_head(&memo_tables, &found->node);
			return found;
		}
	}
	return NULL;
}

/* The memo of a kind about an object, or NULL. */
void *
planner_memo_find(PlannerInfo *root, MemoKind kind, const void *about)
{
	MemoTable  *memo_table = find_memo_table(root);
	Key			key = {about, kind};
	Entry	   *entry = memo_table == NULL ? NULL : entries_lookup(memo_table->entries, key);

	return entry == NULL ? NULL : entry->memo;
}

/* Make the memo of a kind about an object, of which there is none: zero. */
void *
planner_memo_make(PlannerInfo *root, MemoKind kind, const void *about, Size size)
{
	MemoTable  *memo_table = find_memo_table(root);
	void	   *made = MemoryContextAllocZero(root->planner_cxt, size);
	Key			key = {about, kind};
	Entry	   *entry;
	bool		found;

	if (memo_table == NULL)
		memo_table = make_memo_table(root);
	entry = entries_insert(memo_table->entries, key, &found);
	Assert(!found);
	entry->memo = made;

	return made;
}
