/*-------------------------------------------------------------------------
 *
 * name_registry.c
 *	  Names of stamped tables and of everything that comes with them.
 *
 * A table's own name comes from the caller's name_format. The names of its
 * array type, indexes, sequences, generated constraints and statistics are
 * chosen as PostgreSQL chooses them: makeObjectName(), and a number behind the
 * label as long as the name is taken.
 *
 * Whether a name is taken is asked of the catalogs once a call, not once a
 * name: all names of a call that are not truncated begin with one of its
 * table names (array types: with an underscore and one of them), so one range
 * scan of each name index finds everything they could collide with. Usually
 * that is nothing at all. Where the range holds more than the call makes, and
 * for truncated names, which lie outside it, each name is looked up.
 *
 * Names of one call never collide with each other unless truncated: the
 * number is printed by one directive, so two names differ in their digits,
 * and what follows the digits is the same for both up to a suffix beginning
 * with an underscore, which is no digit. Truncated ones are remembered, and
 * those that are so long that a truncated one may be the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "stamp/stamp.h"

/* makeObjectName() cuts two names, each between characters. */
#define LEAST_TRUNCATED (NAMEDATALEN - 1 - 2 * (MAX_MULTIBYTE_CHAR_LEN - 1))

/* A catalog whose rows have names unique in a schema, or looked up by them. */
typedef struct NameSpace
{
	Oid			catalog;
	Oid			index;			/* on (name, namespace) */
	AttrNumber	attname;
	AttrNumber	attnamespace;
	HTAB	   *taken;			/* names found or given out, NULL if none */
	bool		lookup_each;	/* ask the catalog for every name? */
} NameSpace;

enum
{
	SPACE_RELATION,
	SPACE_TYPE,
	SPACE_CONSTRAINT,
	SPACE_STATISTICS,
	NUM_SPACES
};

struct NameRegistry
{
	Oid			namespaceid;
	int		   *passes;			/* of each name that has the same base in all
								 * tables: those before are taken */
	NameSpace	spaces[NUM_SPACES];
	MemoryContext context;		/* of the taken names */
};

static const NameSpace space_template[NUM_SPACES] = {
	[SPACE_RELATION] = {RelationRelationId, ClassNameNspIndexId,
	Anum_pg_class_relname, Anum_pg_class_relnamespace},
	[SPACE_TYPE] = {TypeRelationId, TypeNameNspIndexId,
	Anum_pg_type_typname, Anum_pg_type_typnamespace},
	[SPACE_CONSTRAINT] = {ConstraintRelationId, ConstraintNameNspIndexId,
	Anum_pg_constraint_conname, Anum_pg_constraint_connamespace},
	[SPACE_STATISTICS] = {StatisticExtRelationId, StatisticExtNameIndexId,
	Anum_pg_statistic_ext_stxname, Anum_pg_statistic_ext_stxnamespace},
};

static void space_scan_range(NameRegistry *registry, NameSpace *space, const char *prefix,
							 const char *lowest, const char *highest, int64 limit);
static bool space_lookup(const NameRegistry *registry, const NameSpace *space, const char *name,
						 TransactionId *in_progress);
static bool space_has_settled(const NameRegistry *registry, const NameSpace *space, const char *name);
static void space_remember(NameRegistry *registry, NameSpace *space, const char *name);
static void choose_free(NameRegistry *registry, const StampName *names, int i, NameData *result);
static int	space_of(StampNameKind kind);
static bool is_given_out(const StampName *names, int i, const char *name, const NameData *result);
static bool is_candidate(const StampName *sn, const char *base, int pass, const char *actual);
static char *candidate_name(const StampName *sn, const char *base, int pass);
static bool space_has(const NameRegistry *registry, const NameSpace *space, const char *name,
					  bool truncated);

/*
 * Find what the names of tables first … last, and the names derived from
 * them, could collide with. Result in the current memory context.
 */
NameRegistry *
name_registry_create(const NameFormat *format, int64 first, int64 last, Oid namespaceid)
{
	NameRegistry *registry = palloc0(sizeof(NameRegistry));
	NameData	lowest;
	NameData	highest;
	int64		limit = last - first + 1;
	int64		number = first;

	/*
	 * Numbers with the same number of digits sort as their names do, so that
	 * the lowest and highest name are those of a first or last number of some
	 * length.
	 */
	name_format_apply(format, first, &lowest);
	highest = lowest;
	while (number <= last)
	{
		NameData	name;
		int64		length_last = format->base - 1;

		while (length_last < number && length_last <= (PG_INT64_MAX - (format->base - 1)) / format->base)
			length_last = length_last * format->base + (format->base - 1);
		if (length_last < number || length_last > last)
			length_last = last;

		name_format_apply(format, number, &name);
		if (strcmp(NameStr(name), NameStr(lowest)) < 0)
			lowest = name;
		name_format_apply(format, length_last, &name);
		if (strcmp(NameStr(name), NameStr(highest)) > 0)
			highest = name;

		if (length_last == PG_INT64_MAX)
			break;
		number = length_last + 1;
	}

	registry->namespaceid = namespaceid;
	registry->context = CurrentMemoryContext;
	for (int i = 0; i < NUM_SPACES; i++)
	{
		registry->spaces[i] = space_template[i];
		space_scan_range(registry, &registry->spaces[i], "",
						 NameStr(lowest), NameStr(highest), limit);
	}
	space_scan_range(registry, &registry->spaces[SPACE_TYPE], "_",
					 NameStr(lowest), NameStr(highest), limit);

	return registry;
}

/*
 * Remember the names from `prefix``lowest` to any that begin with
 * `prefix``highest`; beyond `limit` of them give up, and look up each.
 */
static void
space_scan_range(NameRegistry *registry, NameSpace *space, const char *prefix,
				 const char *lowest, const char *highest, int64 limit)
{
	Relation	catalog = table_open(space->catalog, AccessShareLock);
	SnapshotData dirty;
	ScanKeyData key[3];
	SysScanDesc scan;
	HeapTuple	tuple;
	NameData	lower;
	NameData	upper;
	char		buf[NAMEDATALEN + 1];

	snprintf(buf, sizeof(buf), "%s%s", prefix, lowest);
	memset(&lower, 0, sizeof(lower));
	strlcpy(NameStr(lower), buf, NAMEDATALEN);

	/* no byte of a name sorts above 0xFF, whatever its encoding */
	snprintf(buf, sizeof(buf), "%s%s", prefix, highest);
	memset(&upper, 0xFF, sizeof(upper));
	memcpy(NameStr(upper), buf, Min(strlen(buf), NAMEDATALEN - 1));
	NameStr(upper)[NAMEDATALEN - 1] = '\0';

	ScanKeyInit(&key[0], space->attname,
				BTGreaterEqualStrategyNumber, F_NAMEGE, NameGetDatum(&lower));
	ScanKeyInit(&key[1], space->attname,
				BTLessEqualStrategyNumber, F_NAMELE, NameGetDatum(&upper));
	ScanKeyInit(&key[2], space->attnamespace,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(registry->namespaceid));

	/* uncommitted names count: PostgreSQL avoids them too where it can choose */
	InitDirtySnapshot(dirty);
	scan = systable_beginscan(catalog, space->index, true, &dirty, 3, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		name = heap_getattr(tuple, space->attname, RelationGetDescr(catalog), &isnull);

		Assert(!isnull);
		if (limit-- <= 0)
		{
			space->lookup_each = true;
			break;
		}
		space_remember(registry, space, NameStr(*DatumGetName(name)));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * Is the name in the catalog now, seen by anyone? *in_progress becomes the
 * transaction that has not yet decided about that, if it is not ours.
 */
static bool
space_lookup(const NameRegistry *registry, const NameSpace *space, const char *name,
			 TransactionId *in_progress)
{
	Relation	catalog = table_open(space->catalog, AccessShareLock);
	SnapshotData dirty;
	ScanKeyData key[2];
	SysScanDesc scan;
	bool		found;

	ScanKeyInit(&key[0], space->attname,
				BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(name));
	ScanKeyInit(&key[1], space->attnamespace,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(registry->namespaceid));

	InitDirtySnapshot(dirty);
	scan = systable_beginscan(catalog, space->index, true, &dirty, 2, key);
	found = HeapTupleIsValid(systable_getnext(scan));
	*in_progress = !found ? InvalidTransactionId :
		TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);

	return found;
}

static void
space_remember(NameRegistry *registry, NameSpace *space, const char *name)
{
	if (space->taken == NULL)
	{
		HASHCTL		ctl = {.keysize = NAMEDATALEN,.entrysize = NAMEDATALEN,.hcxt = registry->context};

		space->taken = hash_create("pgbillion taken names", 64, &ctl,
								   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	(void) hash_search(space->taken, name, HASH_ENTER, NULL);
}

/* `truncated`: the name may lie outside the scanned range. */
static bool
space_has(const NameRegistry *registry, const NameSpace *space, const char *name, bool truncated)
{
	TransactionId in_progress;

	if (space->taken != NULL && hash_search(space->taken, name, HASH_FIND, NULL) != NULL)
		return true;
	return (truncated || space->lookup_each) && space_lookup(registry, space, name, &in_progress);
}

/*
 * The same for a name that there is no alternative to: wait for the transaction that is
 * about to take it, or to give it up, as inserting into the index would.
 */
static bool
space_has_settled(const NameRegistry *registry, const NameSpace *space, const char *name)
{
	TransactionId in_progress;

	if (!space_has(registry, space, name, false))
		return false;
	while (space_lookup(registry, space, name, &in_progress))
	{
		if (!TransactionIdIsValid(in_progress))
			return true;
		XactLockTableWait(in_progress, NULL, NULL, XLTW_None);
	}
	if (space->taken != NULL)
		(void) hash_search(space->taken, name, HASH_REMOVE, NULL);
	return false;
}

/*
 * Make sure that a table can have this name. As in PostgreSQL a relation of
 * that name is an error (42P07), an array type of that name is renamed, any
 * other type is an error (42710).
 */
void
name_registry_claim_table(NameRegistry *registry, const char *relname)
{
	if (space_has_settled(registry, &registry->spaces[SPACE_RELATION], relname))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", relname)));

	if (space_has_settled(registry, &registry->spaces[SPACE_TYPE], relname))
	{
		Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
										   CStringGetDatum(relname),
										   ObjectIdGetDatum(registry->namespaceid));
		HeapTuple	tuple;

		/* CREATE TABLE would fill in a shell type; that is no stamp's work */
		if (!OidIsValid(type) || !get_typisdefined(type) ||
			!moveArrayTypeName(type, relname, registry->namespaceid))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("type \"%s\" already exists", relname),
					 errhint("A relation has an associated type of the same name, "
							 "so you must use a name that doesn't conflict with any existing type.")));

		/* it has gone where this table's array type would go first */
		tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for type %u", type);
		space_remember(registry, &registry->spaces[SPACE_TYPE],
					   NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname));
		ReleaseSysCache(tuple);
	}
}

/*
 * Choose the names of one table's objects, its partitions among them, in the
 * order given, which is the order in which PostgreSQL would create them, after
 * those of the tables. Fills result[0 .. nnames - 1], each padded with zeros.
 */
void
name_registry_choose(NameRegistry *registry, const StampName *names, int nnames,
					 const char *first_relname, NameData *result)
{
	if (registry->passes == NULL)
		registry->passes = MemoryContextAllocZero(registry->context, nnames * sizeof(int));

	for (int i = 0; i < nnames; i++)
	{
		const StampName *sn = &names[i];

		memset(&result[i], 0, sizeof(NameData));
		if (sn->kind == STAMP_NAME_TABLE)
		{
			/* tree_check_names() has seen that there is room */
			strlcpy(NameStr(result[i]), first_relname, NAMEDATALEN);
			strlcat(NameStr(result[i]), sn->addition, NAMEDATALEN);
			if (i > 0)
				name_registry_claim_table(registry, NameStr(result[i]));
		}
		else
			choose_free(registry, names, i, result);
	}
}

/* Sets the first name that PostgreSQL considers and that is free. */
static void
choose_free(NameRegistry *registry, const StampName *names, int i, NameData *result)
{
	const StampName *sn = &names[i];
	const char *relname = NameStr(result[sn->table]);
	const char *base = sn->base != NULL ? sn->base :
		sn->base_name > 0 ? NameStr(result[sn->base_name]) : relname;
	NameSpace  *space = &registry->spaces[space_of(sn->kind)];

	for (int pass = sn->base != NULL ? registry->passes[i] : 0;; pass++)
	{
		char	   *name = candidate_name(sn, base, pass);
		bool		truncated = base != relname ||
			strncmp(sn->kind == STAMP_NAME_ARRAY_TYPE ? name + 1 : name, relname, strlen(relname)) != 0;
		bool		taken = space_has(registry, space, name, truncated) ||
			(sn->kind == STAMP_NAME_INDEX_CONSTRAINT &&
			 space_has(registry, &registry->spaces[SPACE_CONSTRAINT], name, truncated)) ||
			is_given_out(names, i, name, result);

		if (!taken)
		{
			strlcpy(NameStr(result[i]), name, NAMEDATALEN);
			/* one that nearly is may be what another becomes */
			if (truncated || strlen(name) >= LEAST_TRUNCATED)
				space_remember(registry, space, name);
			registry->passes[i] = pass;
		}
		pfree(name);
		if (!taken)
			break;
		CHECK_FOR_INTERRUPTS();
	}
}

/* Where a name of a kind must be free, first of all. */
static int
space_of(StampNameKind kind)
{
	switch (kind)
	{
		case STAMP_NAME_TABLE:
		case STAMP_NAME_RELATION:
		case STAMP_NAME_INDEX_CONSTRAINT:
			return SPACE_RELATION;
		case STAMP_NAME_ARRAY_TYPE:
			return SPACE_TYPE;
		case STAMP_NAME_CONSTRAINT:
			return SPACE_CONSTRAINT;
		case STAMP_NAME_STATISTICS:
			return SPACE_STATISTICS;
	}
	elog(ERROR, "names of kind %d are not looked up", (int) kind);
}

/* Has an earlier object of this table the name? It is not in the catalog yet. */
static bool
is_given_out(const StampName *names, int i, const char *name, const NameData *result)
{
	StampNameKind kind = names[i].kind;

	for (int j = 0; j < i; j++)
	{
		StampNameKind other = names[j].kind;
		bool		same_space = other == kind ||
			(space_of(kind) == SPACE_RELATION &&
			 (other == STAMP_NAME_RELATION || other == STAMP_NAME_INDEX_CONSTRAINT ||
			  other == STAMP_NAME_TABLE)) ||
			(kind == STAMP_NAME_ARRAY_TYPE && other == STAMP_NAME_TABLE);

		if (same_space && strcmp(NameStr(result[j]), name) == 0)
			return true;
	}
	return false;
}

/*
 * Would the rule, with some number behind the label, give `actual` to a part
 * of what is named `base`? name_origins.c asks this of every name that PostgreSQL chose
 * for the prototype, so that a rule that a new major version changed is
 * noticed.
 */
bool
stamp_name_explains(const StampName *sn, const char *base, const char *actual)
{
	const char *digits = actual + strlen(actual);
	int			number;

	/* array types have underscores in place of a number before 16 */
	for (int pass = 0; pass < NAMEDATALEN - 2; pass++)
		if (is_candidate(sn, base, pass, actual))
			return true;

	/* the number is last, and all of the label where that is nothing else */
	while (digits > actual && isdigit((unsigned char) digits[-1]))
		digits--;
	number = strlen(digits) > 9 ? 0 : atoi(digits);
	return number > 0 &&
		(is_candidate(sn, base, number, actual) || is_candidate(sn, base, number - 1, actual));
}

static bool
is_candidate(const StampName *sn, const char *base, int pass, const char *actual)
{
	char	   *name = candidate_name(sn, base, pass);
	bool		same = strcmp(name, actual) == 0;

	pfree(name);
	return same;
}

/*
 * The name that PostgreSQL considers for a part of `base`, which is a table
 * mostly, when `pass` others are taken; palloc'd. Raises 42710 where PostgreSQL runs out of names.
 */
static char *
candidate_name(const StampName *sn, const char *base, int pass)
{
	char		label[NAMEDATALEN];
	bool		is_array = sn->kind == STAMP_NAME_ARRAY_TYPE;

#if PG_VERSION_NUM < 160000
	/* up to 15 array types get one more underscore, not a number */
	if (is_array)
	{
		char	   *name;

		if (pass >= NAMEDATALEN - 2)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("could not form array type name for type \"%s\"", base)));
		name = palloc(NAMEDATALEN + 1);
		memset(name, '_', pass + 1);
		strlcpy(name + pass + 1, base, NAMEDATALEN - pass);
		name[pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1)] = '\0';
		return name;
	}
#endif

	if (sn->label != NULL && sn->label[0] == '\0')
		pass++;
	if (pass == 0)
		strlcpy(label, sn->label ? sn->label : "", sizeof(label));
	else
		snprintf(label, sizeof(label), "%s%d", sn->label ? sn->label : "", pass);

	return makeObjectName(is_array ? "" : base, is_array ? base : sn->addition,
						  label[0] != '\0' ? label : NULL);
}
