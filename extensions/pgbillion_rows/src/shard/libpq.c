/*-------------------------------------------------------------------------
 *
 * libpq.c
 *	  Finds the functions of the libpq that postgres_fdw has loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "fmgr.h"

#include "shard/libpq.h"

Libpq		pq;

/* A function pointer cannot be cast to or from void * in standard C. */
static void
find(const char *name, void *function, bool required)
{
	/*
	 * not by dlsym(), which would ask for the C library of the machine that
	 * compiles
	 */
	void	   *address = lookup_external_function(RTLD_DEFAULT, name);

	if (address == NULL && required)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the libpq of postgres_fdw has no function %s", name)));
	memcpy(function, &address, sizeof(address));
}

/*
 * Fill in pq. postgres_fdw must be loaded: the server loads modules so that
 * their symbols, and those of the libraries they need, are there for others.
 */
void
LibpqFind(void)
{
	if (pq.PQgetlength != NULL)
		return;

	find("PQsetChunkedRowsMode", &pq.PQsetChunkedRowsMode, false);
	find("PQcancelCreate", &pq.PQcancelCreate, false);
	find("PQcancelStart", &pq.PQcancelStart, false);
	find("PQcancelPoll", &pq.PQcancelPoll, false);
	find("PQcancelSocket", &pq.PQcancelSocket, false);
	find("PQcancelFinish", &pq.PQcancelFinish, false);
	/* last that of PQgetlength, which says that all are there */
#define LIBPQ_FIND(name) find(#name, &pq.name, true);
	LIBPQ_FUNCTIONS(LIBPQ_FIND)
}
