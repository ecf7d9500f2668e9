/*-------------------------------------------------------------------------
 *
 * group_table.h
 *	  The hash table of groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUP_TABLE_H
#define PGBILLION_VECTOR_GROUP_TABLE_H

#include "vector/aggregate/aggregate.h"

#define GROUP_MAX_KEYS 32

/* Number of records that are merged at a time. */
#define GROUP_RECORDS 256

typedef struct GroupTable GroupTable;

/* A place among the entries; zeros: before the first one. */
typedef struct GroupWalk
{
	int			partition;
	struct EntryBlock *block;	/* of it, or NULL: none yet */
	Size		offset;
} GroupWalk;

extern void group_table_spill(GroupTable *table);
extern const uint64 *group_table_tags(GroupTable *table);
extern Size group_table_limit(GroupTable *table);
extern void group_table_set_limit(GroupTable *table, Size limit);
extern Size group_table_entry_bytes(int nkeys, Size state_size);
extern int	group_table_states_offset(int nkeys, int ncompared, const Oid *types);
extern GroupTable *group_table_create(int nkeys, int ncompared, Oid *types, Oid *collations, int state_size,
									  void (*init) (void *arg, char *entry), void *arg);
extern void group_table_reset(GroupTable *table);
extern void group_table_memory(GroupTable *table, StateMemory *memory);
extern void group_table_set_apart(GroupTable *table, const Values *keys, int n, char **entries);
extern int	group_table_find(GroupTable *table, const Values *keys, int n, char **entries);
extern int	group_table_ids(GroupTable *table, char **entries, int n, uint8 *ids, char ***by_id);
extern int	group_table_added(GroupTable *table, uint16 *rows);
extern char *group_table_overflow(GroupTable *table, int i);
extern void group_table_clear_overflow(GroupTable *table);
extern void group_table_expect(GroupTable *table, double groups);
extern bool group_table_reserve(GroupTable *table, int n, bool whatever);
extern int64 group_table_count(GroupTable *table);
extern Size group_table_bytes(GroupTable *table);
extern int	group_table_walk(GroupTable *table, GroupWalk *walk, char **entries, int n);
extern void group_table_keys(GroupTable *table, char *const *entries, int n, int key, Datum *values, bool *nulls);
extern Datum group_table_key(GroupTable *table, char *entry, int key, bool *isnull);

/* ---- group_record.c: for exchange.c ---- */
extern void group_table_pointers(GroupTable *table, int n, struct varlena **(*pointer) (void *arg, char *entry, int i));
extern double group_table_room(GroupTable *table);
extern void group_table_partition(GroupTable *table, int npartitions, Size most_block_bytes);
extern int	group_partition_walk(GroupTable *table, GroupWalk *walk, char **entries, int n);
extern Size group_partition_bytes(GroupTable *table, int partition);
extern char *group_partition_block(GroupTable *table, GroupWalk *walk, Size *bytes);
extern void group_partition_forget(GroupTable *table, int partition);
extern Size group_fixed_record(GroupTable *table);
extern Size group_record_size(GroupTable *table, char *entry);
extern void group_record_write(GroupTable *table, char *entry, char *record, Size size);
extern char *group_record_next(GroupTable *table, char *record);
extern uint64 group_record_hash(GroupTable *table, const char *record);
extern int	group_table_merge(GroupTable *table, char **records, int n, char **entries);

#endif							/* PGBILLION_VECTOR_GROUP_TABLE_H */
