/*-------------------------------------------------------------------------
 *
 * key.h
 *	  What tells groups, and rows that are joined, apart.
 *
 *	key.c			when two values are equal
 *	group_key.c		keys of groups, and their words
 *	join_key.c		keys of hash joins, and their tags
 *	slots.h			the slots of the hash tables over tags
 *
 * A value has a word, which is the same for equal values. Words of several
 * keys make a tag, by which hash tables find their entries.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_KEY_H
#define PGBILLION_VECTOR_KEY_H

#include "fmgr.h"

typedef enum
{
	KEY_INTEGER,				/* by value, as integers of 64 bits: of joins */
	KEY_BITS,					/* equal if and only if the same bits */
	KEY_FLOAT4,
	KEY_FLOAT8,
	KEY_TEXT,					/* byte by byte */
	KEY_BPCHAR,					/* the same, without blanks at the end */
	KEY_NUMERIC,
	KEY_OTHER					/* by the type's own functions */
} KeyKind;

typedef struct Key
{
	KeyKind		kind;
	int16		len;
	bool		byval;
	Oid			collation;
	FmgrInfo	hash;			/* KEY_NUMERIC, KEY_OTHER */
	FmgrInfo	equal;
} Key;

/* The first byte of the word of a string or numeric that does not fit into it. */
#define WORD_IS_HASH 0xFF

/* May values of this word be different? */
static inline bool
key_word_is_hash(const Key *key, uint64 word)
{
	return key->kind == KEY_OTHER || (key->kind >= KEY_TEXT && word >> 56 == WORD_IS_HASH);
}

/* The tag of keys and one more, of which this is the word. */
static inline uint64
key_mix(uint64 tag, uint64 word)
{
	/* the multiplier of Knuth's MMIX generator */
	tag = (tag ^ word) * UINT64CONST(6364136223846793005);
	return tag ^ tag >> 29;
}

static inline uint64
key_load_word(const char *p)
{
	uint64		word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/*
 * Both halves of a product, of which each depends on all bits of the factors;
 * and their sum, lest a string that makes one factor zero hide the other.
 */
static inline uint64
key_fold(uint64 a, uint64 b)
{
	unsigned	__int128 product = (unsigned __int128) a * b;

	return (uint64) product ^ (uint64) (product >> 64) ^ (a + b);
}

/* A hash of a string of eight bytes or more, sixteen at a time; the last ones may overlap others. */
static inline uint64
key_hash_string(const char *data, int len)
{
	/* 2^64 / golden ratio; the fractions of the square roots of 2 and 3 */
	const uint64 golden = UINT64CONST(0x9E3779B97F4A7C15);
	const uint64 first = UINT64CONST(0x6A09E667F3BCC909);
	const uint64 second = UINT64CONST(0xBB67AE8584CAA73B);
	const char *end = data + len;
	uint64		hash = (uint64) len * golden;

	for (; end - data > 16; data += 16)
		hash = key_fold(key_load_word(data) ^ first ^ hash, key_load_word(data + 8) ^ second);
	if (len >= 16)
		data = end - 16;
	hash = key_fold(key_load_word(data) ^ first ^ hash, key_load_word(end - 8) ^ second);
	return key_fold(hash ^ golden, (uint64) len ^ second);
}

/* The word of a string. */
static inline uint64
key_text_word(const char *data, int len)
{
	uint64		word = 0;

	if (len >= 8)
		return (uint64) WORD_IS_HASH << 56 | key_hash_string(data, len) >> 8;
	for (int i = 0; i < len; i++)
		word |= (uint64) (unsigned char) data[i] << (8 * i);
	return word | (uint64) len << 56;
}

extern bool key_equal(Key *key, Datum left, Datum right);

#endif							/* PGBILLION_VECTOR_KEY_H */
