/*
 * Kernels over made-up pages of columns: rows per second, and whether all sets of kernels give the same answers.
 *
 * usage: kernels ROWS GROUPS ROUNDS
 *
 * Each page is copied first, as a reader would under the page's lock.  Answers are compared with plain loops.  Sets and
 * kernels take turns.  One line per round, kernel and set says how many rows each second of the process's CPU time took.
 */
#include "postgres.h"

#include <math.h>
#include <time.h>

#include "column_index/kernels.h"

/* PostgreSQL's own are not linked */
#undef printf
#undef fprintf

#define PAGE_BYTES (BLCKSZ - 64)
#define ROWS_8 PAGE_BYTES
#define SETS 3
#define KERNELS 7

typedef struct Data
{
	int			rows;
	int			groups;
	uint8	   *codes;			/* padded to whole pages */
	uint16	   *shorts;
	uint32	   *ints;
	float4	   *floats;
	float4	   *odd_floats;		/* NaN and infinities among them */
} Data;

/* Every kernel's answer: counts, totals, or sums per code. */
typedef struct Answer
{
	uint64		counts[KERNEL_CODES];
	KernelFloats floats[KERNEL_CODES];
} Answer;

static const char *const kernel_names[KERNELS] = {
	"count", "sum_16_bits", "sum_32_bits", "sum_avg_real", "filter_real_count", "filter_16_bits",
	"filter_32_bits"
};

#ifdef USE_ASSERT_CHECKING
/* What a server's Assert() calls. */
void
#if PG_VERSION_NUM >= 160000
ExceptionalCondition(const char *condition, const char *file, int line)
#else
ExceptionalCondition(const char *condition, const char *type, const char *file, int line)
#endif
{
	fprintf(stderr, "error: %s:%d: %s does not hold\n", file, line, condition);
	abort();
}
#endif

static uint64
next_random(uint64 *state)
{
	/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift generators */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64CONST(2685821657736338717);
}

static void *
allocate(size_t bytes)
{
	void	   *result = malloc(bytes + BLCKSZ * 4);

	if (result == NULL)
	{
		fprintf(stderr, "error: out of memory\n");
		exit(1);
	}
	return result;
}

static Data
make_data(int rows, int groups)
{
	const float4 odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.45f, 0.55f};
	Data		data;
	uint64		state = 88172645463325252;

	data.rows = rows;
	data.groups = groups;
	data.codes = allocate(rows);
	data.shorts = allocate(rows * sizeof(uint16));
	data.ints = allocate(rows * sizeof(uint32));
	data.floats = allocate(rows * sizeof(float4));
	data.odd_floats = allocate(rows * sizeof(float4));
	for (int i = 0; i < rows; i++)
	{
		uint64		chance = next_random(&state);

		data.codes[i] = (chance >> 32) % groups;
		data.shorts[i] = chance;
		data.ints[i] = chance >> 16;
		data.floats[i] = (float4) (chance >> 40) / (1 << 24);
		data.odd_floats[i] = chance % 64 < lengthof(odd) ? odd[chance % 64] : data.floats[i];
	}
	return data;
}

/* One kernel over all pages. */
static void
run(const ColumnKernels *set, int kernel, const Data *data, Answer *answer)
{
	static uint8 page[PAGE_BYTES];
	static uint8 values[ROWS_8 * sizeof(float4)];
	uint64		bitmap[KERNEL_BITMAP_WORDS(ROWS_8)];

	for (int row = 0; row < data->rows; row += ROWS_8)
	{
		int			n = Min(ROWS_8, data->rows - row);

		if (kernel < 5)
			memcpy(page, data->codes + row, n);
		switch (kernel)
		{
			case 0:
				set->count_codes(page, n, data->groups, answer->counts);
				break;
			case 1:
				memcpy(values, data->shorts + row, n * sizeof(uint16));
				set->sum_uint16(page, (uint16 *) values, n, data->groups, answer->counts);
				break;
			case 2:
				memcpy(values, data->ints + row, n * sizeof(uint32));
				set->sum_uint32(page, (uint32 *) values, n, data->groups, answer->counts);
				break;
			case 3:
				memcpy(values, data->floats + row, n * sizeof(float4));
				set->sum_float4(page, (float4 *) values, n, answer->floats);
				break;
			case 4:
				memcpy(values, data->odd_floats + row, n * sizeof(float4));
				set->select_float4((float4 *) values, n, 0.45f, 0.55f, bitmap);
				set->count_codes_of(page, bitmap, n, data->groups, answer->counts);
				break;
			case 5:
				memcpy(values, data->shorts + row, n * sizeof(uint16));
				answer->counts[0] += set->select_uint16((uint16 *) values, n, 30000, 36553, bitmap);
				break;
			case 6:
				memcpy(values, data->ints + row, n * sizeof(uint32));
				answer->counts[0] += set->select_uint32((uint32 *) values, n, 2000000000, 2429496730, bitmap);
				break;
		}
	}
}

/* The same by plain loops. */
static void
expect(int kernel, const Data *data, Answer *answer)
{
	for (int i = 0; i < data->rows; i++)
	{
		uint8		code = data->codes[i];

		if (kernel == 0)
			answer->counts[code]++;
		else if (kernel == 1)
			answer->counts[code] += data->shorts[i];
		else if (kernel == 2)
			answer->counts[code] += data->ints[i];
		else if (kernel == 3)
		{
			answer->floats[code].sum += data->floats[i];
			answer->floats[code].wide_sum += data->floats[i];
		}
		else if (kernel == 4)
			answer->counts[code] += data->odd_floats[i] >= 0.45f && data->odd_floats[i] <= 0.55f;
		else if (kernel == 5)
			answer->counts[0] += data->shorts[i] >= 30000 && data->shorts[i] <= 36553;
		else
			answer->counts[0] += data->ints[i] >= 2000000000 && data->ints[i] <= 2429496730;
	}
}

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
	static Answer wanted[KERNELS];
	static Answer found;
	const char *const names[SETS] = {"baseline", "avx2", "avx512"};
	Data		data;
	int			rounds;

	if (argc != 4 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1 || atoi(argv[2]) > KERNEL_CODES || atoi(argv[3]) < 1)
	{
		fprintf(stderr, "usage: kernels ROWS GROUPS ROUNDS\n");
		return 2;
	}
	data = make_data(atoi(argv[1]), atoi(argv[2]));
	rounds = atoi(argv[3]);
	for (int kernel = 0; kernel < KERNELS; kernel++)
		expect(kernel, &data, &wanted[kernel]);
	for (int round = 0; round < rounds; round++)
		for (int kernel = 0; kernel < KERNELS; kernel++)
			for (int s = 0; s < SETS; s++)
			{
				const ColumnKernels *set = column_kernels_named(names[s]);
				double		start;

				if (set == NULL)
					continue;
				memset(&found, 0, sizeof(found));
				start = now();
				run(set, kernel, &data, &found);
				printf("%s %s %.0f\n", set->name, kernel_names[kernel], data.rows / (now() - start));
				if (memcmp(&found, &wanted[kernel], sizeof(found)) != 0)
				{
					fprintf(stderr, "error: %s by %s is wrong\n", kernel_names[kernel], set->name);
					return 1;
				}
			}
	return 0;
}
