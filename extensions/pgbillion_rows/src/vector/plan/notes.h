/*-------------------------------------------------------------------------
 *
 * notes.h
 *	  What is found out of a statement's parts while it is planned, and is asked
 *	  for again.
 *
 * A note is about an object of the planner's, and lives in its memory context:
 * it is gone when that is. There is one of each kind about an object. A struct
 * that begins with a Note has what is known.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_NOTES_H
#define PGBILLION_VECTOR_NOTES_H

#include "lib/ilist.h"
#include "utils/palloc.h"

typedef enum NoteKind
{
	NOTE_ROWS,					/* of a PlannerInfo: core_cost.c */
	NOTE_COSTS,					/* of a relation's paths: core_cost.c */
	NOTE_STATEMENT,				/* of a PlannerInfo: join_chain.c */
	NOTE_CHAINS,				/* of a relation: join_chain.c */
	NOTE_INNER,					/* of a relation: join_step.c */
	NOTE_CLAUSE,				/* of a RestrictInfo: join_step.c */
	NOTE_COLUMNS				/* of a relation: join_path.c */
} NoteKind;

typedef struct Note
{
	dlist_node	node;			/* in a bucket */
	const void *about;
	NoteKind	kind;
	MemoryContextCallback callback;
} Note;

extern void *find_note(NoteKind kind, const void *about);
extern void *make_note(NoteKind kind, void *about, Size size);

#endif							/* PGBILLION_VECTOR_NOTES_H */
