/*-------------------------------------------------------------------------
 *
 * faults.c
 *	  Calls of the C library that fail when a test says so, and a clock of the
 *	  day that jumps: for LD_PRELOAD.
 *
 * The file that TEST_FAULTS names is mapped into every process. One
 * process at a time, the one whose number is in it, counts its calls of one
 * kind; the call at which the countdown ends fails as the system would let it.
 * Instead of that process the parallel workers can be meant, all of them: then
 * one session alone may have any.
 *
 * Calls on files count where the path has /base/ or pgsql_tmp in it: an error
 * of WAL or of control files is PostgreSQL's own PANIC, with or without us.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/* The file's layout, which tests/harness/faults.py writes. */
struct control
{
	volatile long process;		/* 0: nobody counts */
	volatile long kind;
	volatile long countdown;	/* the call that brings it to 0 fails */
	volatile long calls;		/* how many there have been */
	volatile long failed;		/* has one been failed? */
	volatile long workers;		/* parallel workers count, not the process */
	volatile long shift;		/* seconds by which the clock of the day is wrong */
};

enum kind
{
	MEMORY,						/* malloc, calloc, realloc */
	SPACE,						/* what makes files longer: ENOSPC */
	FILES						/* open: EMFILE; reading: EIO */
};

static struct control *control;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

__attribute__((constructor))
static void
map_control(void)
{
	const char *name = getenv("TEST_FAULTS");
	int			fd = name != NULL ? open(name, O_RDWR) : -1;
	void	   *mapped;

	if (fd < 0)
		return;
	mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped != MAP_FAILED)
		control = mapped;
}

/* Is this a parallel worker? PostgreSQL's own variable tells, which initdb's programs lack. */
static bool
is_worker(void)
{
	static int *number;

	if (number == NULL)
		number = (int *) dlsym(RTLD_DEFAULT, "ParallelWorkerNumber");
	return number != NULL && *number >= 0;
}

/* Does this call fail? */
static bool
fails(enum kind kind)
{
	if (control == NULL || control->process == 0 || control->kind != kind ||
		!(control->workers ? is_worker() : control->process == getpid()))
		return false;
	__atomic_add_fetch(&control->calls, 1, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&control->countdown, 1, __ATOMIC_RELAXED) != 0)
		return false;
	control->failed = 1;
	return true;
}

static bool
is_ours(const char *path)
{
	return strstr(path, "base/") != NULL || strstr(path, "pgsql_tmp") != NULL;
}

static bool
file_fails(enum kind kind, int fd)
{
	char		link[64];
	char		path[4096];
	ssize_t		length;

	if (control == NULL || control->process == 0 || control->kind != kind)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return false;
	path[length] = '\0';
	return is_ours(path) && fails(kind);
}

/* The C library's own function of this name. */
#define REAL(function) \
	static __typeof__(function) *real; \
	if (real == NULL) \
		real = (__typeof__(function) *) dlsym(RTLD_NEXT, #function)

void *
malloc(size_t size)
{
	if (fails(MEMORY))
	{
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
	if (fails(MEMORY))
	{
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(n, size);
}

void *
realloc(void *old, size_t size)
{
	if (fails(MEMORY))
	{
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(old, size);
}

static int
open_as(const char *name, const char *path, int flags, va_list more)
{
	int			(*real) (const char *, int,...) = (int (*) (const char *, int,...)) dlsym(RTLD_NEXT, name);
	int			mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;

	if (is_ours(path) && fails(FILES))
	{
		errno = EIO;
		return -1;
	}
	return real(path, flags, mode);
}

#define DEFINE_OPEN(function) \
int \
function(const char *path, int flags,...) \
{ \
	va_list		more; \
	int			fd; \
	va_start(more, flags); \
	fd = open_as(#function, path, flags, more); \
	va_end(more); \
	return fd; \
}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_WRITE(function, parameters, arguments) \
ssize_t \
function parameters \
{ \
	REAL(function); \
	if (file_fails(SPACE, fd)) \
	{ \
		errno = ENOSPC; \
		return -1; \
	} \
	return real arguments; \
}

DEFINE_WRITE(write, (int fd, const void *data, size_t size), (fd, data, size))
DEFINE_WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
DEFINE_WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
DEFINE_WRITE(pwritev, (int fd, const struct iovec *parts, int n, off_t at), (fd, parts, n, at))
DEFINE_WRITE(pwritev64, (int fd, const struct iovec *parts, int n, off64_t at), (fd, parts, n, at))

/* It returns the error instead of setting errno. */
#define DEFINE_ALLOCATE(function, offset) \
int \
function(int fd, offset at, offset length) \
{ \
	REAL(function); \
	return file_fails(SPACE, fd) ? ENOSPC : real(fd, at, length); \
}

DEFINE_ALLOCATE(posix_fallocate, off_t)
DEFINE_ALLOCATE(posix_fallocate64, off64_t)

#define DEFINE_READ(function, parameters, arguments) \
ssize_t \
function parameters \
{ \
	REAL(function); \
	if (file_fails(FILES, fd)) \
	{ \
		errno = EIO; \
		return -1; \
	} \
	return real arguments; \
}

DEFINE_READ(pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
DEFINE_READ(pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
DEFINE_READ(preadv, (int fd, const struct iovec *parts, int n, off_t at), (fd, parts, n, at))
DEFINE_READ(preadv64, (int fd, const struct iovec *parts, int n, off64_t at), (fd, parts, n, at))

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	REAL(gettimeofday);
	int			result = real(now, zone);

	if (control != NULL)
		now->tv_sec += control->shift;
	return result;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	REAL(clock_gettime);
	int			result = real(clock, now);

	if (control != NULL && clock == CLOCK_REALTIME)
		now->tv_sec += control->shift;
	return result;
}
