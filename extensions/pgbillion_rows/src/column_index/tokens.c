/*-------------------------------------------------------------------------
 *
 * tokens.c
 *	  Bytes as numbers of tokens, and back.
 *
 * A token is a string of up to TOKEN_BYTES bytes that repeats in a segment's
 * column, such as a word.  Its number has 12 bits, and three bytes hold two
 * numbers.  Token 0 is empty, and fills up the last three bytes.  Every byte
 * that occurs is a token, so that everything can be encoded.
 *
 * The encoder finds tokens in samples of the bytes: two tokens that follow
 * each other often become one.  It then encodes the bytes from the first to
 * the last, each time by the longest token that they begin with, which it
 * looks up in a tree.
 *
 * Decoding copies TOKEN_BYTES bytes for each number, and the next copy begins
 * where the token ends.  No copy waits for another, and no branch depends on
 * the bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"

#include "column_index/store.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Tokens that the encoder makes: as many as numbers can name. */
#define MOST_TOKENS TOKEN_CODES

/* Bytes of a sample, and of all samples in which tokens are looked for. */
#define SAMPLE_PIECE 512
#define SAMPLE_BYTES 262144

/* Two tokens that have followed each other this often become one. */
#define OFTEN 4

/* The tree's nodes, and a table of its edges of twice that size. */
#define TREE_NODES 32768
#define TREE_EDGES (2 * TREE_NODES)

/* Places in which pairs of tokens are counted, and how many a pair may be in. */
#define PAIRS 65536
#define PAIR_PLACES 8

/* Bytes after which encoding is given up if it does not pay so far. */
#define TRIAL_BYTES 32768

/*
 * Bytes that numbers may take for a number of bytes: tokens have to be of four
 * bytes on average.  Decoding shorter ones takes longer than reading the bytes
 * that they save.
 */
#define CODES_ENOUGH(bytes) ((bytes) * TOKEN_CODE_BYTES / 2 / 4)

#define NO_TOKEN 0

typedef struct Edge
{
	uint32		key;			/* edge_key(), or 0: none */
	uint16		node;			/* to which it leads */
} Edge;

typedef struct Pair
{
	uint32		key;			/* both numbers, or 0: none */
	uint32		count;
} Pair;

typedef struct Encoder
{
	int			ntokens;		/* the empty one, too */
	uint8		lengths[MOST_TOKENS];
	char		tokens[MOST_TOKENS][TOKEN_BYTES];
	int			nnodes;			/* the root, which is 0, too */
	uint16		token_of[TREE_NODES];	/* that ends at a node, or NO_TOKEN */
	Edge		edges[TREE_EDGES];
	Pair		pairs[PAIRS];
} Encoder;

/* ---- the tree ---- */

static inline uint32
edge_key(int node, char byte)
{
	return ((uint32) node << 8 | (uint8) byte) + 1;
}

static inline uint32
hash_key(uint32 key, int bits)
{
	return (key * 0x9E3779B1U) >> (32 - bits);
}

/* Where an edge is, or would be: the table is never full. */
static inline Edge *
find_edge(Encoder *encoder, int node, char byte)
{
	uint32		key = edge_key(node, byte);
	uint32		at = hash_key(key, 16);

	StaticAssertStmt(TREE_EDGES == 1 << 16, "bits of the hash");
	while (encoder->edges[at].key != 0 && encoder->edges[at].key != key)
		at = (at + 1) % TREE_EDGES;

	return &encoder->edges[at];
}

/* Add a token, unless it is one already or no room is left. */
static void
add_token(Encoder *encoder, const char *bytes, int length)
{
	int			node = 0;

	if (encoder->ntokens == MOST_TOKENS)
		return;
	for (int i = 0; i < length; i++)
	{
		Edge	   *edge = find_edge(encoder, node, bytes[i]);

		if (edge->key == 0)
		{
			if (encoder->nnodes == TREE_NODES)
				return;
			edge->key = edge_key(node, bytes[i]);
			edge->node = encoder->nnodes++;
		}
		node = edge->node;
	}
	if (encoder->token_of[node] != NO_TOKEN)
		return;
	encoder->token_of[node] = encoder->ntokens;
	encoder->lengths[encoder->ntokens] = length;
	memcpy(encoder->tokens[encoder->ntokens], bytes, length);
	encoder->ntokens++;
}

/* The longest token that the bytes begin with; there is one. */
static inline int
longest_token(Encoder *encoder, const char *bytes, Size length)
{
	int			node = 0;
	int			token = NO_TOKEN;
	int			most = Min(length, TOKEN_BYTES);

	for (int i = 0; i < most; i++)
	{
		Edge	   *edge = find_edge(encoder, node, bytes[i]);

		if (edge->key == 0)
			break;
		node = edge->node;
		if (encoder->token_of[node] != NO_TOKEN)
			token = encoder->token_of[node];
	}
	Assert(token != NO_TOKEN);
	return token;
}

/* ---- finding tokens ---- */

/* Count that a token follows another; true if that has just become often. */
static bool
count_pair(Encoder *encoder, int first, int second)
{
	uint32		key = (uint32) first << TOKEN_CODE_BITS | second;
	uint32		at = hash_key(key, 16);

	StaticAssertStmt(PAIRS == 1 << 16, "bits of the hash");
	for (int i = 0; i < PAIR_PLACES; i++)
	{
		Pair	   *pair = &encoder->pairs[(at + i) % PAIRS];

		if (pair->key == 0)
			pair->key = key;
		if (pair->key == key)
			return ++pair->count == OFTEN;
	}
	/* there are too many: then this one hardly is often */
	return false;
}

static void
learn_from(Encoder *encoder, const char *bytes, Size length)
{
	int			last = NO_TOKEN;

	for (Size at = 0; at < length;)
	{
		int			token = longest_token(encoder, bytes + at, length - at);
		int			last_length = encoder->lengths[last];
		int			both = last_length + encoder->lengths[token];

		if (last != NO_TOKEN && both <= TOKEN_BYTES && count_pair(encoder, last, token))
			add_token(encoder, bytes + at - last_length, both);
		at += encoder->lengths[token];
		last = token;
	}
}

/* Find tokens: each byte that occurs, and what is frequent in samples. */
static void
find_tokens(Encoder *encoder, const char *bytes, Size length)
{
	bool		occurs[256] = {false};
	Size		step = Max((uint64) SAMPLE_PIECE * length / SAMPLE_BYTES, SAMPLE_PIECE);

	encoder->ntokens = 1;
	encoder->nnodes = 1;
	for (Size i = 0; i < length; i++)
		occurs[(uint8) bytes[i]] = true;
	for (int i = 0; i < 256; i++)
	{
		char		byte = (char) i;

		if (occurs[i])
			add_token(encoder, &byte, 1);
	}
	for (Size at = 0; at < length; at += step)
	{
		CHECK_FOR_INTERRUPTS();
		learn_from(encoder, bytes + at, Min(length - at, SAMPLE_PIECE));
	}
}

/* ---- encoding ---- */

/* Append a piece's numbers; returns false if they take more than the buffer has. */
static bool
encode_piece(Encoder *encoder, const char *bytes, Size length, StringInfo codes)
{
	uint32		waiting = 0;	/* number that has no second one yet */

	for (Size at = 0; at < length;)
	{
		int			token = longest_token(encoder, bytes + at, length - at);

		at += encoder->lengths[token];
		/* the last one may be followed by the empty token */
		if (waiting != 0 || at == length)
		{
			uint32		both = waiting != 0 ? waiting | (uint32) token << TOKEN_CODE_BITS : (uint32) token;

			if (codes->len + TOKEN_CODE_BYTES >= codes->maxlen)
				return false;
			for (int i = 0; i < TOKEN_CODE_BYTES; i++)
				codes->data[codes->len++] = (char) (both >> 8 * i);
			waiting = 0;
		}
		else
			waiting = token;
	}
	return true;
}

static void
append_table(const Encoder *encoder, TokenHead *head, StringInfo table)
{
	head->ntokens = encoder->ntokens;
	head->token_bytes = 0;
	for (int i = 0; i < encoder->ntokens; i++)
		head->token_bytes += encoder->lengths[i];
	appendBinaryStringInfo(table, (char *) head, sizeof(*head));
	appendBinaryStringInfo(table, (char *) encoder->lengths, encoder->ntokens);
	for (int i = 0; i < encoder->ntokens; i++)
		appendBinaryStringInfo(table, encoder->tokens[i], encoder->lengths[i]);
}

/*
 * Encode pieces of bytes, each of which can be decoded without those before.
 * They end at ends[], and begin at multiples of eight.  Appends the table of
 * tokens to one empty string, with a head in which the caller has set what
 * describes lengths, and the numbers to another.  Piece i's numbers begin at
 * places[i], and the last ones end at places[npieces].  Returns false if both
 * take more than `most` bytes, or tokens are too short to pay: then what is in
 * the strings is of no use.
 */
bool
tokens_encode(const char *bytes, const uint32 *ends, int npieces, Size most, TokenHead *head, StringInfo table,
			  StringInfo codes, uint32 *places)
{
	Encoder    *encoder = palloc0(sizeof(Encoder));
	Size		length = npieces > 0 ? ends[npieces - 1] : 0;
	Size		start = 0;
	bool		tried = false;
	bool		pays;

	find_tokens(encoder, bytes, length);
	head->value_bytes = length;
	append_table(encoder, head, table);
	pays = table->len < most;
	if (pays)
	{
		most = Min(most - table->len, CODES_ENOUGH(length));
		enlargeStringInfo(codes, most);
	}
	for (int i = 0; i < npieces && pays; i++)
	{
		places[i] = codes->len;
		/* one piece may be all of it */
		while (start < ends[i] && pays)
		{
			Size		part = Min(ends[i] - start, TRIAL_BYTES);

			CHECK_FOR_INTERRUPTS();
			pays = encode_piece(encoder, bytes + start, part, codes);
			start += part;
			if (!tried && start >= TRIAL_BYTES)
			{
				tried = true;
				pays = pays && (double) codes->len / start < (double) most / length;
			}
		}
		start = MAXALIGN(start);
	}
	places[npieces] = codes->len;
	pfree(encoder);

	return pays && codes->len <= most;
}

/* ---- decoding ---- */

/* Up to five numbers, the first of which has the lowest bits. */
static inline uint64
load_codes(const char *codes)
{
	uint64		word;

	memcpy(&word, codes, sizeof(word));
#ifdef WORDS_BIGENDIAN
	word = pg_bswap64(word);
#endif
	return word;
}

/* Bytes of memory that tokens_take() needs for the table of a head. */
Size
tokens_memory(const TokenHead *head)
{
	return offsetof(Tokens, tokens) + pg_nextpower2_32(Max(head->ntokens, 1)) * (TOKEN_BYTES + sizeof(uint8));
}

/* Is a table that begins with this head within some bytes, which may be damaged? */
bool
tokens_are_sane(const TokenHead *head, Size bytes)
{
	return head->ntokens <= TOKEN_CODES &&
		(head->length_width == 1 || head->length_width == 2 || head->length_width == 4) &&
		(head->all_short == 0 || (head->all_short == 1 && head->length_width == 1)) &&
		sizeof(TokenHead) + head->ntokens + (uint64) head->token_bytes <= bytes &&
		head->value_bytes <= TOKENS_MOST_BYTES;
}

/*
 * Take a table of tokens, whose head is sane, from the beginning of some bytes,
 * which may be damaged: returns false then.  Behind it there must be
 * TOKEN_BYTES bytes of any content.
 */
bool
tokens_take(Tokens *tokens, const char *bytes)
{
	const TokenHead *head = (const TokenHead *) bytes;
	const uint8 *lengths = (const uint8 *) bytes + sizeof(TokenHead);
	const char *token = (const char *) lengths + head->ntokens;
	uint32		room = pg_nextpower2_32(Max(head->ntokens, 1));
	Size		total = 0;

	tokens->head = *head;
	tokens->mask = room - 1;
	tokens->lengths = (uint8 *) tokens->tokens[room];
	for (uint32 i = 0; i < head->ntokens; i++)
	{
		if (lengths[i] > TOKEN_BYTES || total + lengths[i] > head->token_bytes)
			return false;
		memcpy(tokens->tokens[i], token + total, TOKEN_BYTES);
		total += lengths[i];
	}
	memcpy(tokens->lengths, lengths, head->ntokens);
	/* numbers of no token are those of empty ones */
	memset(tokens->lengths + head->ntokens, 0, room - head->ntokens);

	return true;
}

/*
 * Decode numbers, of which there are whole pairs, to a number of bytes; returns
 * false if it is another one.  Up to TOKENS_SLACK bytes more may be written,
 * and five bytes more be read.
 */
bool
tokens_decode(const Tokens *tokens, const char *codes, Size code_bytes, char *to, Size length)
{
	const char	(*bytes)[TOKEN_BYTES] = tokens->tokens;
	const uint8 *lengths = tokens->lengths;
	const uint32 mask = tokens->mask;
	const char *end = codes + code_bytes;
	char	   *at = to;

	if (code_bytes % TOKEN_CODE_BYTES != 0)
		return false;
	/* two pairs at once, then the last one if they are odd */
	for (; end - codes >= 2 * TOKEN_CODE_BYTES; codes += 2 * TOKEN_CODE_BYTES)
	{
		uint64		four = load_codes(codes);
		uint32		first = four & mask;
		uint32		second = four >> TOKEN_CODE_BITS & mask;
		uint32		third = four >> 2 * TOKEN_CODE_BITS & mask;
		uint32		fourth = four >> 3 * TOKEN_CODE_BITS & mask;

		memcpy(at, bytes[first], TOKEN_BYTES);
		at += lengths[first];
		memcpy(at, bytes[second], TOKEN_BYTES);
		at += lengths[second];
		memcpy(at, bytes[third], TOKEN_BYTES);
		at += lengths[third];
		memcpy(at, bytes[fourth], TOKEN_BYTES);
		at += lengths[fourth];
		if (at - to > length)
			return false;
	}
	if (codes < end)
	{
		uint64		two = load_codes(codes);
		uint32		first = two & mask;
		uint32		second = two >> TOKEN_CODE_BITS & mask;

		memcpy(at, bytes[first], TOKEN_BYTES);
		at += lengths[first];
		memcpy(at, bytes[second], TOKEN_BYTES);
		at += lengths[second];
	}
	return at - to == length;
}

/* The length of value i, up to the next one: an array of `width` bytes an element. */
#define SUM_LENGTHS(type) \
	for (int i = 0; i < n; i++) \
		sum += ((const type *) lengths)[i]

/* What some values take together. */
Size
tokens_sum_lengths(const void *lengths, int width, int n)
{
	Size		sum = 0;

	if (width == 1)
		SUM_LENGTHS(uint8);
	else if (width == 2)
		SUM_LENGTHS(uint16);
	else
		SUM_LENGTHS(uint32);

	return sum;
}
#undef SUM_LENGTHS

/* Is it a value of at most `size` bytes?  Of no bytes there is none. */
static inline bool
is_value(const ColumnType *type, const char *value, Size at, Size size)
{
	/* a value that is out of line begins like a short one of no bytes */
	if (type->len < 0 && VARATT_IS_SHORT(value))
		return (uint32) VARSIZE_SHORT(value) - 1 < size;
	if (at % MAXIMUM_ALIGNOF != 0)
		return false;
	if (type->len > 0)
		return size >= type->len;
	return size >= VARHDRSZ && !VARATT_IS_COMPRESSED(value) && VARSIZE_4B(value) >= VARHDRSZ &&
		VARSIZE_4B(value) <= size;
}

/* tokens_find_values() of short values, whose headers are made of their lengths. */
static bool
find_short_values(char *bytes, const uint8 *lengths, const bool *nulls, int n, Datum *values)
{
	bool		good = true;

	if (nulls == NULL)
	{
		uint8		longest = 0;	/* less one: of no bytes there is none */

		for (int i = 0; i < n; i++)
			longest = Max(longest, (uint8) (lengths[i] - 1));
		if (longest >= VARATT_SHORT_MAX)
			return false;
		for (int i = 0; i < n; i++)
		{
			values[i] = PointerGetDatum(bytes);
			SET_VARSIZE_SHORT(bytes, lengths[i]);
			bytes += lengths[i];
		}
		return true;
	}
	for (int i = 0; i < n; i++)
	{
		values[i] = nulls[i] ? (Datum) 0 : PointerGetDatum(bytes);
		good &= nulls[i] ? lengths[i] == 0 : (uint8) (lengths[i] - 1) < VARATT_SHORT_MAX;
		if (lengths[i] > 0)
			SET_VARSIZE_SHORT(bytes, lengths[i]);
		bytes += lengths[i];
	}
	return good;
}

#define FIND_VALUES(length_type) \
	for (int i = 0; i < n; i++) \
	{ \
		Size		size = ((const length_type *) lengths)[i]; \
\
		values[i] = PointerGetDatum(bytes + at); \
		if (nulls == NULL || !nulls[i]) \
			good &= is_value(type, bytes + at, at, size); \
		else \
			values[i] = (Datum) 0; \
		at += size; \
	}

/*
 * Find values that lie one after the other in decoded bytes, and may be
 * damaged: returns false then.  Their lengths are what each takes up to the
 * next one, all together no more than the bytes that there are.
 */
bool
tokens_find_values(const ColumnType *type, const TokenHead *head, char *bytes, const void *lengths,
				   const bool *nulls, int n, Datum *values)
{
	Size		at = 0;
	bool		good = true;

	if (head->all_short)
		return type->len == -1 && find_short_values(bytes, lengths, nulls, n, values);
	switch (head->length_width)
	{
		case 1:
			FIND_VALUES(uint8);
			break;
		case 2:
			FIND_VALUES(uint16);
			break;
		default:
			FIND_VALUES(uint32);
	}
	return good;
}
#undef FIND_VALUES
