/*-------------------------------------------------------------------------
 *
 * libpq.h
 *	  libpq as postgres_fdw loads it.
 *
 * This library is not linked with libpq: most of what it does needs none, and
 * a server may have more than one. Once postgres_fdw is loaded, its libpq is
 * found by name; pq.PQxxx() is that library's PQxxx().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARD_LIBPQ_H
#define SHARD_LIBPQ_H

#include "libpq-fe.h"

#define LIBPQ_FUNCTIONS(F) \
	F(PQconndefaults) F(PQconninfo) F(PQconninfoFree) \
	F(PQconnectStartParams) F(PQconnectPoll) F(PQfinish) F(PQstatus) F(PQsocket) \
	F(PQerrorMessage) F(PQserverVersion) F(PQparameterStatus) F(PQconnectionUsedPassword) F(PQsetNoticeReceiver) \
	F(PQsetnonblocking) F(PQenterPipelineMode) F(PQpipelineSync) F(PQsendFlushRequest) \
	F(PQsendQueryParams) F(PQsetSingleRowMode) F(PQflush) F(PQconsumeInput) F(PQisBusy) \
	F(PQgetResult) F(PQclear) F(PQresultStatus) F(PQresultErrorField) \
	F(PQntuples) F(PQnfields) F(PQftype) F(PQgetisnull) F(PQgetvalue) F(PQgetlength)

#define LIBPQ_MEMBER(name) __typeof__(name) *name;

struct pg_cancel_conn;

typedef struct Libpq
{
	LIBPQ_FUNCTIONS(LIBPQ_MEMBER)

	/* since 17; NULL in older ones */
	int			(*PQsetChunkedRowsMode) (PGconn *conn, int chunk_size);
	struct pg_cancel_conn *(*PQcancelCreate) (PGconn *conn);
	int			(*PQcancelStart) (struct pg_cancel_conn *cancel);
	PostgresPollingStatusType (*PQcancelPoll) (struct pg_cancel_conn *cancel);
	int			(*PQcancelSocket) (const struct pg_cancel_conn *cancel);
	void		(*PQcancelFinish) (struct pg_cancel_conn *cancel);
} Libpq;

extern Libpq pq;

extern void LibpqFind(void);

#endif							/* SHARD_LIBPQ_H */
