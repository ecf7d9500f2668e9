/*-------------------------------------------------------------------------
 *
 * session.h
 *	  What a session keeps for as long as it lives.
 *
 *	metadata_memory.c	a limit for its catalog caches
 *	tenant_guard.c		no other tenant's rows by a search_path that was kept
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SESSION_H
#define PGBILLION_SESSION_H

/* ---- metadata_memory.c ---- */

extern void metadata_memory_init(void);

/* ---- tenant_guard.c ---- */

extern void tenant_guard_init(void);

#endif							/* PGBILLION_SESSION_H */
