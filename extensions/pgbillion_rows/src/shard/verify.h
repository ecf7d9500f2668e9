/*-------------------------------------------------------------------------
 *
 * verify.h
 *	  Whether what we call on a shard is ours.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARD_VERIFY_H
#define SHARD_VERIFY_H

#include "nodes/pg_list.h"

extern bool ShardIsOurs(Oid function);
extern char *ShardVerification(List *names);
extern char *ShardVerificationCommand(const char *verification);
extern char *ShardVerificationProblem(const char *message);
pg_noreturn extern void ShardReportProblem(const char *server, const char *problem);

#endif							/* SHARD_VERIFY_H */
