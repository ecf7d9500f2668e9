/*-------------------------------------------------------------------------
 *
 * server_build.h
 *	  What a library is built for, beyond what PostgreSQL compares itself.
 *
 * PostgreSQL compares the major version when it loads a library. What these
 * libraries do as the server's own code does it also depends on the minor
 * version, on the sizes of pages and segments, and on whether there are
 * assertions, with which structures have other members.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SERVER_BUILD_H
#define PGBILLION_SERVER_BUILD_H

#include "utils/guc.h"

/* `pgbillion extension` finds this in the library's file, without loading it. */
#define SERVER_BUILD(name) \
	static const char server_build_mark[] __attribute__((used)) = \
		"pgbillion build: " name " " PGBILLION_VERSION " " CppAsString2(PG_VERSION_NUM)

#ifdef USE_ASSERT_CHECKING
#define BUILT_WITH_ASSERTIONS "on"
#else
#define BUILT_WITH_ASSERTIONS "off"
#endif

/* Raise an error if the server was built with another value of an option. */
static inline void
require_build_option(const char *library, const char *option, const char *built)
{
	const char *running = GetConfigOption(option, false, false);

	if (strcmp(running, built) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("library \"%s\" was built for a server with %s = %s, and this server has %s",
						library, option, built, running),
				 errhint("Compile the library with this server's pg_config.")));
}

/*
 * Raise an error if the library was not built for the running server. The first
 * that _PG_init() does. A later minor version is accepted. An earlier one is
 * not: it may lack what the library calls, or have a bug whose fix the library
 * relies on.
 */
static inline void
require_server_build(const char *library)
{
	int			running = atoi(GetConfigOption("server_version_num", false, false));

	if (running < PG_VERSION_NUM)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("library \"%s\" was built for PostgreSQL %d.%d or later, and this is %d.%d",
						library, PG_VERSION_NUM / 10000, PG_VERSION_NUM % 10000,
						running / 10000, running % 10000),
				 errhint("Restart the server if it was updated, or compile the library with its pg_config.")));
	require_build_option(library, "block_size", CppAsString2(BLCKSZ));
	require_build_option(library, "wal_block_size", CppAsString2(XLOG_BLCKSZ));
	require_build_option(library, "segment_size", CppAsString2(RELSEG_SIZE));
	require_build_option(library, "debug_assertions", BUILT_WITH_ASSERTIONS);
}

#endif							/* PGBILLION_SERVER_BUILD_H */
