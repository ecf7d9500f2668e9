/*-------------------------------------------------------------------------
 *
 * tokens.c
 *	  Bytes to tokens and back, without a server: what was encoded comes back,
 *	  and what is damaged reaches no memory but its own.
 *
 *	usage: tokens SEED ROUNDS
 *
 * Every array has just as many bytes as its functions are promised, so that a
 * build with -fsanitize=address finds each access beyond them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <stdlib.h>

#include "column_index/store.h"
#include "miscadmin.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* the C library's: nothing of the server is linked */
#undef fprintf
#undef printf

/* ---- what tokens.c wants of the server ---- */

volatile sig_atomic_t InterruptPending = false;

void
ProcessInterrupts(void)
{
}

void *
palloc0(Size size)
{
	return calloc(1, size);
}

void
pfree(void *pointer)
{
	free(pointer);
}

void
enlargeStringInfo(StringInfo string, int needed)
{
	while (string->maxlen <= string->len + needed)
		string->maxlen *= 2;
	string->data = realloc(string->data, string->maxlen);
}

void
appendBinaryStringInfo(StringInfo string,
#if PG_VERSION_NUM >= 160000
					   const void *data,
#else
					   const char *data,
#endif
					   int length)
{
	enlargeStringInfo(string, length);
	memcpy(string->data + string->len, data, length);
	string->len += length;
}

void
ExceptionalCondition(const char *condition,
#if PG_VERSION_NUM < 160000
					 const char *type,
#endif
					 const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, condition);
	abort();
}

/* Bytes behind numbers of tokens that may be read. */
#define CODES_BEHIND 5

/* ---- chance ---- */

static uint64 state;

/* A number below `n`, which is not 0. */
static uint32
below(Size n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32) ((state >> 11) % n);
}

static void
check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* An aligned copy, with some bytes of any content behind it, and not one more. */
static char *
copy(const void *bytes, Size length, Size behind)
{
	void	   *to = NULL;

	check(posix_memalign(&to, 64, Max(length + behind, 1)) == 0, "memory");
	if (bytes != NULL)
		memcpy(to, bytes, length);
	return to;
}

/* ---- bytes to encode ---- */

typedef struct Case
{
	int			npieces;
	uint32	   *ends;
	uint32	   *places;
	char	   *bytes;
	Size		length;
	StringInfoData table;
	StringInfoData codes;
} Case;

static char
some_byte(const char *bytes, Size at, int shape, int base, int alphabet)
{
	static const char words[] = "the quick brown fox \0\xff\x80 jumps over the lazy dog; ";

	switch (shape)
	{
		case 0:
			return (char) below(256);
		case 1:
			return (char) base;
		case 2:
			return words[at % (below(60) > 0 ? sizeof(words) : 7)];
		case 3:
			return (char) (base + below(alphabet));
		default:
			return at > 40 && below(30) > 0 ? bytes[at - 1 - at % 37] : (char) (base + below(alphabet));
	}
}

static void
make_case(Case *made)
{
	Size		most = below(8) == 0 ? 400000 : 60000;
	int			shape = below(5);
	int			base = below(256);
	int			alphabet = 1 + below(256);
	Size		at = 0;

	made->npieces = 1 + below(below(3) > 0 ? 6 : COLUMNS_MAX_BLOCKS);
	made->ends = malloc(sizeof(uint32) * made->npieces);
	made->places = malloc(sizeof(uint32) * (made->npieces + 1));
	made->bytes = calloc(1, most + made->npieces * 2 * MAXIMUM_ALIGNOF);
	for (int i = 0; i < made->npieces; i++)
	{
		Size		end;

		at = MAXALIGN(at);
		end = at + (below(5) == 0 ? 0 : below(most / made->npieces + 1));
		for (; at < end; at++)
			made->bytes[at] = some_byte(made->bytes, at, shape, base, alphabet);
		made->ends[i] = at;
	}
	made->length = at;
	made->table = (StringInfoData) {.data = malloc(64), .maxlen = 64};
	made->codes = (StringInfoData) {.data = malloc(64), .maxlen = 64};
}

static void
free_case(Case *made)
{
	free(made->ends);
	free(made->places);
	free(made->bytes);
	free(made->table.data);
	free(made->codes.data);
}

static bool
encode(Case *made)
{
	Size		most = below(4) > 0 ? made->length + 100000 : below(made->length + 1);
	char	   *bytes = copy(made->bytes, made->length, 0);
	TokenHead	head = {.length_width = 1 << below(3)};
	bool		encoded;

	head.all_short = head.length_width == 1 && below(2) == 0;
	encoded = tokens_encode(bytes, made->ends, made->npieces, most, &head, &made->table, &made->codes, made->places);
	check(!encoded || made->table.len + made->codes.len <= most, "more bytes than were allowed");
	free(bytes);

	return encoded;
}

/* ---- the way back ---- */

static Tokens *
take(const char *table)
{
	Tokens	   *tokens = (Tokens *) copy(NULL, 0, tokens_memory((const TokenHead *) table));

	if (tokens_take(tokens, table))
		return tokens;
	free(tokens);
	return NULL;
}

static void
check_decoded(const Case *made)
{
	char	   *table = copy(made->table.data, made->table.len, TOKEN_BYTES);
	Tokens	   *tokens;
	Size		start = 0;

	check(tokens_are_sane((TokenHead *) table, made->table.len), "the table is not sane");
	tokens = take(table);
	check(tokens != NULL, "the table is not one");
	for (int i = 0; i < made->npieces; i++)
	{
		Size		length = made->ends[i] - start;
		Size		code_bytes = made->places[i + 1] - made->places[i];
		char	   *codes = copy(made->codes.data + made->places[i], code_bytes, CODES_BEHIND);
		char	   *to = copy(NULL, 0, length + TOKENS_SLACK);

		check(tokens_decode(tokens, codes, code_bytes, to, length) &&
			  memcmp(to, made->bytes + start, length) == 0, "other bytes came back");
		free(codes);
		free(to);
		start = MAXALIGN(made->ends[i]);
	}
	free(tokens);
	free(table);
}

/* ---- damage ---- */

/* Lengths of values that together take no more than some bytes. */
static char *
some_lengths(int width, int n, Size bytes, Size *sum)
{
	char	   *lengths = copy(NULL, 0, (Size) n * width);
	Size		largest = width == 1 ? PG_UINT8_MAX : width == 2 ? PG_UINT16_MAX : PG_UINT32_MAX;

	*sum = 0;
	for (int i = 0; i < n; i++)
	{
		Size		most = below(3) > 0 ? 20 : largest;
		uint32		length = below(Min(bytes - *sum, most) + 1);

		if (width == 1)
			((uint8 *) lengths)[i] = length;
		else if (width == 2)
			((uint16 *) lengths)[i] = length;
		else
			((uint32 *) lengths)[i] = length;
		*sum += length;
	}
	check(tokens_sum_lengths(lengths, width, n) == *sum, "another sum");

	return lengths;
}

/* Values that are found in some bytes lie in them. */
static bool
values_are_within(const TokenHead *head, const char *bytes, Size length)
{
	static const int16 type_lengths[] = {-1, -1, 16, 64};
	ColumnType	type = {.len = type_lengths[below(4)]};
	int			n = below(4) == 0 ? 1 : below(200);
	Size		sum;
	char	   *lengths = some_lengths(head->length_width, n, length, &sum);
	char	   *found = copy(bytes, sum, TOKENS_SLACK);
	bool	   *nulls = below(2) == 0 ? NULL : (bool *) copy(NULL, 0, n);
	Datum	   *values = (Datum *) copy(NULL, 0, sizeof(Datum) * n);
	bool		good;

	/* zeros are headers that say of a value that it is shorter than they are */
	if (below(4) == 0)
		memset(found, 0, sum);
	memset(found + sum, below(256), TOKENS_SLACK);
	for (int i = 0; nulls != NULL && i < n; i++)
		nulls[i] = below(3) == 0;
	good = tokens_find_values(&type, head, found, lengths, nulls, n, values);
	for (int i = 0; good && i < n; i++)
	{
		const char *value = DatumGetPointer(values[i]);

		check((value == NULL) == (nulls != NULL && nulls[i]), "NULLs are others");
		if (value != NULL)
			check(value >= found && value < found + sum &&
				  (type.len > 0 ? type.len : VARSIZE_ANY(value)) <= found + sum - value, "a value reaches further");
		if (value != NULL && type.len < 0)
			check(VARSIZE_ANY(value) >= (VARATT_IS_SHORT(value) ? VARHDRSZ_SHORT : VARHDRSZ), "a value of no bytes");
	}
	free(lengths);
	free(found);
	free(nulls);
	free(values);

	return good && n > 0;
}

static void
damage_bytes(char *bytes, Size length, int times)
{
	for (int i = 0; length > 0 && i < times; i++)
		bytes[below(length)] = below(3) == 0 ? (char) 0xFF : (char) below(256);
}

/* Make one token of some, so that it is too long, and all together take as many bytes as before. */
static void
lengthen_token(char *table)
{
	uint32		ntokens = ((TokenHead *) table)->ntokens;
	uint8	   *lengths = (uint8 *) table + sizeof(TokenHead);
	uint32		token = below(ntokens);

	for (uint32 i = token + 1; i < ntokens && lengths[token] + lengths[i] <= PG_UINT8_MAX; i++)
	{
		lengths[token] += lengths[i];
		lengths[i] = 0;
	}
}

/* Decode with a damaged table, or damaged numbers of tokens; returns whether values were found. */
static bool
decode_damaged(const Case *made)
{
	char	   *table = copy(made->table.data, made->table.len, TOKEN_BYTES);
	Tokens	   *tokens = NULL;
	bool		found = false;

	if (below(4) == 0)
		lengthen_token(table);
	damage_bytes(table, sizeof(TokenHead), below(2));
	damage_bytes(table, Min(made->table.len, 5000), below(3));
	if (tokens_are_sane((TokenHead *) table, made->table.len))
		tokens = take(table);
	if (tokens != NULL)
	{
		Size		code_bytes = below(made->codes.len + 1);
		Size		length = below(3) == 0 ? below(200) : below(made->length + 100);
		char	   *codes;
		char	   *to = copy(NULL, 0, length + TOKENS_SLACK);

		if (below(4) > 0)
			code_bytes -= code_bytes % TOKEN_CODE_BYTES;
		codes = copy(made->codes.data, code_bytes, CODES_BEHIND);
		damage_bytes(codes, code_bytes, below(10));
		memset(to, below(256), length + TOKENS_SLACK);
		(void) tokens_decode(tokens, codes, code_bytes, to, length);
		found = values_are_within(&tokens->head, to, length);
		free(codes);
		free(to);
		free(tokens);
	}
	free(table);

	return found;
}

int
main(int argc, char **argv)
{
	int			encoded = 0;
	int			found = 0;
	int			rounds = argc == 3 ? atoi(argv[2]) : 0;

	if (rounds <= 0)
	{
		fprintf(stderr, "usage: tokens SEED ROUNDS\n");
		return 2;
	}
	state = (strtoull(argv[1], NULL, 10) + 1) * UINT64CONST(0x9E3779B97F4A7C15);
	for (int i = 0; i < rounds; i++)
	{
		Case		made;

		make_case(&made);
		if (encode(&made))
		{
			encoded++;
			check_decoded(&made);
			for (int times = 0; times < 20; times++)
				found += decode_damaged(&made);
		}
		free_case(&made);
	}
	printf("%d %d\n", encoded, found);

	return 0;
}
