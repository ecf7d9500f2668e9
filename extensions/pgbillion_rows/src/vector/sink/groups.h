/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  The sink of GROUP BY, for another sink above it: regroup.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUPS_H
#define PGBILLION_VECTOR_GROUPS_H

#include "vector/sink/group.h"
#include "vector/sink/sink.h"

extern GroupTable *groups_table(Sink *sink);
extern int	groups_next_entries(Sink *sink, char **entries, int n);
extern bool groups_have_remainder(Sink *sink);

#endif							/* PGBILLION_VECTOR_GROUPS_H */
