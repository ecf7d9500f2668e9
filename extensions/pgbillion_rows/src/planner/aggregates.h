/*-------------------------------------------------------------------------
 *
 * aggregates.h
 *	  Which function of PostgreSQL stands behind a function of ours.
 *
 * The partial aggregates of the extension name C functions of ours only, the
 * same on every major version: a dump of the extension can be restored by any
 * other. Whoever recognizes an aggregate by its functions asks here first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_AGGREGATES_H
#define PGBILLION_AGGREGATES_H

extern Oid	aggregate_core_function(Oid function);
extern bool aggregate_gives_state(Oid finalfn);

#endif							/* PGBILLION_AGGREGATES_H */
