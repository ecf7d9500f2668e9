/*-------------------------------------------------------------------------
 *
 * verify_functions.h
 *	  Whether what we call on a shard is ours.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARD_VERIFY_FUNCTIONS_H
#define SHARD_VERIFY_FUNCTIONS_H

#include "nodes/pg_list.h"

extern bool shard_is_ours(Oid function);
extern char *shard_verification(List *names);
extern char *shard_verification_command(const char *verification);
extern char *shard_verification_problem(const char *message);
pg_noreturn extern void shard_report_problem(const char *server, const char *problem);

#endif							/* SHARD_VERIFY_FUNCTIONS_H */
