/*-------------------------------------------------------------------------
 *
 * group_sink.h
 *	  The sink of GROUP BY, for another sink above it: regroup.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUP_SINK_H
#define PGBILLION_VECTOR_GROUP_SINK_H

#include "vector/group/group_table.h"
#include "vector/group/sink.h"

extern GroupTable *group_sink_table(Sink *sink);
extern int	group_sink_next_entries(Sink *sink, char **entries, int n);
extern Datum group_sink_key(Sink *sink, char *entry, int output, bool *isnull);
extern bool group_sink_has_spilled(Sink *sink);

#endif							/* PGBILLION_VECTOR_GROUP_SINK_H */
