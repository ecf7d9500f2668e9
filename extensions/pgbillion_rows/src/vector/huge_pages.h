/*-------------------------------------------------------------------------
 *
 * huge_pages.h
 *	  Memory that is accessed at random, in pages as large as there are.
 *
 * A table of many megabytes touches another page with nearly every row, and of
 * small pages the processor knows only some thousand addresses at a time. The
 * kernel gives large ones for such memory where its administrator lets programs
 * ask for them; then the first touch of each page costs less, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_HUGE_PAGES_H
#define PGBILLION_VECTOR_HUGE_PAGES_H

#include <sys/mman.h>

/* Below that there is hardly a whole one within. */
#define HUGE_PAGES_FROM ((Size) 4 * 1024 * 1024)

/* Ask for large pages for fresh memory, before it is touched. Whether there are any does not matter. */
static inline void
ask_for_huge_pages(void *memory, Size size)
{
#ifdef MADV_HUGEPAGE
	uintptr_t	page = 4096;
	uintptr_t	begin = TYPEALIGN(page, (uintptr_t) memory);
	uintptr_t	end = TYPEALIGN_DOWN(page, (uintptr_t) memory + size);

	if (size >= HUGE_PAGES_FROM)
		(void) madvise((void *) begin, end - begin, MADV_HUGEPAGE);
#endif
}

/* Zeroed memory of a context, of any size. */
static inline void *
alloc_zero_for_random_access(MemoryContext context, Size size)
{
	void	   *memory = MemoryContextAllocExtended(context, size, MCXT_ALLOC_HUGE);

	ask_for_huge_pages(memory, size);
	memset(memory, 0, size);

	return memory;
}

#endif							/* PGBILLION_VECTOR_HUGE_PAGES_H */
