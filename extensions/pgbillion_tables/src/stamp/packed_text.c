/*-------------------------------------------------------------------------
 *
 * packed_text.c
 *	  Long texts with OIDs of members in them, compressed before the OIDs are
 *	  known.
 *
 * A view's stored query takes many kilobytes, and PostgreSQL compresses each
 * clone's anew. What differs between them are a few OIDs. So here the pieces
 * between the OIDs are searched for repetitions once, and a clone's text is
 * written from what was found: bytes, copies of earlier bytes, and OIDs.
 *
 * The result is what pglz_compress() could have made. Where it says how far
 * back an earlier byte is, that depends on how many digits the OIDs between
 * have, and is counted when they are known; a copy is taken only if it is near
 * enough whatever they are. OIDs are never copied, nor copied from.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/toast_compression.h"
#include "access/toast_internals.h"
#include "utils/builtins.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "stamp/stamp.h"

/* What the format can express: see pg_lzcompress.c. */
#define MIN_COPY 3
#define MAX_COPY 273
#define MAX_DISTANCE 4095

/* How many earlier places with the same beginning are looked at. */
#define MAX_TRIES 32
#define NUM_HEADS 4096

/* The pieces of a text, one after the other. */
typedef struct Pieces
{
	int			n;
	char	   *bytes;
	int		   *start;			/* n + 1, in bytes[] */
	Size	   *latest;			/* n: where in a clone's text it begins, at
								 * the latest */
	int		   *head;			/* NUM_HEADS: last place with that hash, or -1 */
	int		   *previous;		/* by place */
} Pieces;

typedef struct PackedOutput
{
	unsigned char *control;		/* bits that tell bytes and copies apart */
	unsigned char *next;
	int			bit;
} PackedOutput;

static void join_pieces(Pieces *pieces, const OidTemplate *text);
static int	find_copy(const Pieces *pieces, int piece, int at, int *from_piece, int *from);
static unsigned int hash_at(const char *bytes);
static void add_item(OidTemplate *text, int length, int piece, int at, bool is_copy);
static inline void next_bit(PackedOutput *output);
static inline void put_bytes(PackedOutput *output, const char *bytes, int n);
static inline void put_copy(PackedOutput *output, int distance, int length);
#ifdef USE_ASSERT_CHECKING
static bool is_text_of(Datum compressed, const OidTemplate *template, const Oid *oids);
#endif

/* Find what of the text can be copied from what precedes it. */
void
oid_template_pack(OidTemplate *text)
{
	Pieces		pieces;

	join_pieces(&pieces, text);
	for (int piece = 0; piece < pieces.n; piece++)
	{
		int			end = pieces.start[piece + 1];
		int			at = pieces.start[piece];
		int			bytes_from = at;

		while (at < end)
		{
			int			from_piece = 0;
			int			from = 0;
			int			length = find_copy(&pieces, piece, at, &from_piece, &from);
			int			covered = Max(length, 1);

			if (length > 0)
			{
				if (at > bytes_from)
					add_item(text, at - bytes_from, piece, bytes_from - pieces.start[piece], false);
				add_item(text, length, from_piece, from - pieces.start[from_piece], true);
				bytes_from = at + length;
			}
			for (; covered > 0; covered--, at++)
			{
				unsigned int hash;

				if (at + MIN_COPY > end)
					continue;
				hash = hash_at(pieces.bytes + at);
				pieces.previous[at] = pieces.head[hash];
				pieces.head[hash] = at;
			}
		}
		if (at > bytes_from)
			add_item(text, at - bytes_from, piece, bytes_from - pieces.start[piece], false);
		/* the OID behind it; the last piece has none */
		add_item(text, 0, piece, 0, false);
	}
}

static void
join_pieces(Pieces *pieces, const OidTemplate *text)
{
	Size		latest = 0;

	pieces->n = text->nplaces + 1;
	pieces->start = palloc((pieces->n + 1) * sizeof(int));
	pieces->latest = palloc(pieces->n * sizeof(Size));
	pieces->start[0] = 0;
	for (int i = 0; i < pieces->n; i++)
	{
		int			length = strlen(text->pieces[i]);

		pieces->latest[i] = latest;
		latest += length + MAX_PLACE_LENGTH;
		pieces->start[i + 1] = pieces->start[i] + length;
	}

	pieces->bytes = palloc(pieces->start[pieces->n] + 1);
	for (int i = 0; i < pieces->n; i++)
		strcpy(pieces->bytes + pieces->start[i], text->pieces[i]);
	pieces->head = palloc(NUM_HEADS * sizeof(int));
	for (int i = 0; i < NUM_HEADS; i++)
		pieces->head[i] = -1;
	pieces->previous = palloc((pieces->start[pieces->n] + 1) * sizeof(int));
}

/*
 * The longest copy for the bytes from `at` on, which are the piece's; returns
 * its length, 0 if there is none, and sets where it is from.
 */
static int
find_copy(const Pieces *pieces, int piece, int at, int *from_piece, int *from)
{
	int			left = Min(pieces->start[piece + 1] - at, MAX_COPY);
	int			best = 0;
	int			source = piece;
	int			place;

	if (left < MIN_COPY)
		return 0;
	place = pieces->head[hash_at(pieces->bytes + at)];
	for (int tries = 0; place >= 0 && tries < MAX_TRIES; tries++, place = pieces->previous[place])
	{
		int			most = left;
		int			length = 0;

		while (pieces->start[source] > place)
			source--;
		/* the OIDs between are as long as can be */
		if ((pieces->latest[piece] + at - pieces->start[piece]) -
			(pieces->latest[source] + place - pieces->start[source]) > MAX_DISTANCE)
			break;
		/* within a piece, what is copied may be what the copy writes */
		if (source != piece)
			most = Min(most, pieces->start[source + 1] - place);
		while (length < most && pieces->bytes[place + length] == pieces->bytes[at + length])
			length++;
		if (length > best)
		{
			best = length;
			*from_piece = source;
			*from = place;
		}
	}
	return best < MIN_COPY ? 0 : best;
}

static unsigned int
hash_at(const char *bytes)
{
	const unsigned char *b = (const unsigned char *) bytes;

	return ((b[0] << 6) ^ (b[1] << 3) ^ (b[2] << 1) ^ b[0]) % NUM_HEADS;
}

static void
add_item(OidTemplate *text, int length, int piece, int at, bool is_copy)
{
	PackedItem *item;

	/* grown by powers of two */
	if ((text->nitems & (text->nitems - 1)) == 0)
		text->items = text->items == NULL ? palloc(sizeof(PackedItem)) :
			repalloc(text->items, text->nitems * 2 * sizeof(PackedItem));
	item = &text->items[text->nitems++];
	item->length = length;
	item->piece = piece;
	item->at = at;
	item->is_copy = is_copy;
}

/*
 * The text of the clone whose members have these OIDs, compressed; palloc'd.
 * Expects that it has been packed.
 */
Datum
oid_template_fill_packed(const OidTemplate *text, const Oid *oids)
{
	int		   *starts = palloc((text->nplaces + 1) * sizeof(int));
	Size		most = 0;		/* bytes of the text */
	int			done = 0;
	struct varlena *result;
	PackedOutput output;

	for (int i = 0; i <= text->nplaces; i++)
		most += strlen(text->pieces[i]) + MAX_PLACE_LENGTH;

	/*
	 * a copy takes no more than what it stands for; a text too long for an
	 * int is an error here
	 */
	result = palloc(VARHDRSZ_COMPRESSED + most + most / 8 + 1);
	output.control = output.next = (unsigned char *) result + VARHDRSZ_COMPRESSED;
	output.bit = 0;

	starts[0] = 0;
	for (int i = 0; i < text->nitems; i++)
	{
		const PackedItem *item = &text->items[i];

		if (item->length == 0)
		{
			char		digits[MAX_PLACE_LENGTH];
			int			length;

			if (item->piece == text->nplaces)
				break;
			length = oid_template_write(text, item->piece, oids, digits);
			put_bytes(&output, digits, length);
			done += length;
			starts[item->piece + 1] = done;
			continue;
		}
		if (item->is_copy)
			put_copy(&output, done - (starts[item->piece] + item->at), item->length);
		else
			put_bytes(&output, text->pieces[item->piece] + item->at, item->length);
		done += item->length;
	}

	SET_VARSIZE_COMPRESSED(result, output.next - (unsigned char *) result);
	TOAST_COMPRESS_SET_SIZE_AND_COMPRESS_METHOD(result, done, TOAST_PGLZ_COMPRESSION_ID);
	pfree(starts);
	Assert(is_text_of(PointerGetDatum(result), text, oids));
	return PointerGetDatum(result);
}

#ifdef USE_ASSERT_CHECKING
/* Is that the text that is not compressed? */
static bool
is_text_of(Datum compressed, const OidTemplate *template, const Oid *oids)
{
	return strcmp(TextDatumGetCString(compressed), TextDatumGetCString(oid_template_fill(template, oids))) == 0;
}
#endif

/* Eight things follow each byte of control bits. */
static inline void
next_bit(PackedOutput *output)
{
	output->bit <<= 1;
	if ((output->bit & 0xff) == 0)
	{
		output->bit = 1;
		output->control = output->next++;
		*output->control = 0;
	}
}

static inline void
put_bytes(PackedOutput *output, const char *bytes, int n)
{
	for (int i = 0; i < n; i++)
	{
		next_bit(output);
		*output->next++ = (unsigned char) bytes[i];
	}
}

/* See pglz_out_tag(). */
static inline void
put_copy(PackedOutput *output, int distance, int length)
{
	unsigned char high = (distance & 0xf00) >> 4;

	Assert(distance > 0 && distance <= MAX_DISTANCE);
	Assert(length >= MIN_COPY && length <= MAX_COPY);
	next_bit(output);
	*output->control |= output->bit;
	*output->next++ = high | (length > 17 ? 0x0f : length - MIN_COPY);
	*output->next++ = distance & 0xff;
	if (length > 17)
		*output->next++ = length - 18;
}
