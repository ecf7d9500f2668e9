/*-------------------------------------------------------------------------
 *
 * kernels.c
 *	  Sets of kernels, and the choice among them.
 *
 * Which instructions the processor has is asked once per process.
 *
 *-------------------------------------------------------------------------
 */
#include "column_index/kernels.h"


#define SET baseline
#define SET_TARGET
#define SET_BYTES 16
#include "column_index/kernel_set.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86_SETS

#define SET avx2
#define SET_TARGET __attribute__((target("avx2,bmi,popcnt")))
#define SET_BYTES 32
#include "column_index/kernel_set.h"

#define SET avx512
#define SET_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,bmi,popcnt")))
#define SET_BYTES 64
#include "column_index/kernel_set.h"
#endif

/* The set of that name, or NULL where this processor lacks its instructions. */
const ColumnKernels *
column_kernels_named(const char *name)
{
	if (strcmp(name, "baseline") == 0)
		return &baseline_kernels;
#ifdef HAVE_X86_SETS
	/* also asks whether the operating system saves the registers */
	__builtin_cpu_init();
	if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
		__builtin_cpu_supports("popcnt"))
		return &avx2_kernels;
	if (strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
		return &avx512_kernels;
#endif
	return NULL;
}

/* The fastest set that this processor can execute. */
const ColumnKernels *
column_kernels(void)
{
	static const ColumnKernels *chosen = NULL;
	static const char *const names[] = {"avx512", "avx2", "baseline"};

	for (int i = 0; chosen == NULL; i++)
		chosen = column_kernels_named(names[i]);
	return chosen;
}
