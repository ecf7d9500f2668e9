/*-------------------------------------------------------------------------
 *
 * notes.h
 *	  What is found out of a statement's parts while it is planned, and is asked
 *	  for again.
 *
 * A note is about an object of the planner's for one query, which lives as long
 * as the planning of that query does. There is one of each kind about an object.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_NOTES_H
#define PGBILLION_VECTOR_NOTES_H

#include "nodes/pathnodes.h"

typedef enum NoteKind
{
	NOTE_ROWS,					/* of a PlannerInfo: core_cost.c */
	NOTE_COSTS,					/* of a relation's paths: core_cost.c */
	NOTE_STATEMENT,				/* of a PlannerInfo: join_chain.c */
	NOTE_CHAINS,				/* of a relation: join_chain.c */
	NOTE_INNER,					/* of a relation: join_step.c */
	NOTE_CLAUSE,				/* of a RestrictInfo: join_step.c */
	NOTE_COLUMNS,				/* of a relation: join_path.c */
	NOTE_OFFER,					/* of a relation: join_path.c */
	NOTE_FILTER,				/* of a table: cost.c */
	NOTE_KINDS					/* how many there are */
} NoteKind;

extern void *find_note(PlannerInfo *root, NoteKind kind, const void *about);
extern void *make_note(PlannerInfo *root, NoteKind kind, const void *about, Size size);

#endif							/* PGBILLION_VECTOR_NOTES_H */
