/*-------------------------------------------------------------------------
 *
 * aggregates.h
 *	  Which function of PostgreSQL one of our functions calls.
 *
 * The partial aggregates of the extension name only our own C functions, the
 * same on every major version: a dump of the extension can be restored by any
 * other. Code that recognizes an aggregate by its functions asks here first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_AGGREGATES_H
#define PGBILLION_AGGREGATES_H

/* Values in a state of regr_* and corr(), and in one of PostgreSQL before 19. */
#define OLD_REGR_STATE_VALUES 6
#if PG_VERSION_NUM >= 190000
#define REGR_STATE_VALUES 8
#else
#define REGR_STATE_VALUES OLD_REGR_STATE_VALUES
#endif

extern Oid	aggregate_core_function(Oid function);
extern bool aggregate_gives_state(Oid finalfn);
extern Datum aggregate_widen_regr_state(Datum state);

#endif							/* PGBILLION_AGGREGATES_H */
