/*-------------------------------------------------------------------------
 *
 * compile.c
 *	  Two tables or schemas made after one template compared, and what they
 *	  have in common made a stamp. See stamp.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "lazy_heap/lazy_heap.h"
#include "stamp/stamp.h"

typedef struct Compiler
{
	const MemberRows *one;
	const MemberRows *other;
	const char *what;			/* they are, in reasons */
	Stamp	   *stamp;
	char	   *reason;			/* why there is no stamp, or NULL */
	int			outside_size;	/* of outside[] */
} Compiler;

/* A column's value in the rows of both. */
typedef struct Difference
{
	Form_pg_attribute att;
	int			place;			/* from the tuple's header */
	char	   *value;
	char	   *other;
	int			length;
	int			other_length;
} Difference;

static MemberRows *rows_of_schema(Oid schema, char **reason);
static Stamp *compile(Compiler *compiler, char **reason);
static void add_members(Stamp *stamp, const MemberRows *one);
static bool compare_members(Compiler *compiler);
static bool compile_rows(Compiler *compiler);
static bool compile_catalog(Compiler *compiler, int catalog);
static bool compile_row(Compiler *compiler, int catalog, Relation rel, StampRow *row, const MemberRow *one,
						const MemberRow *other);
static bool compile_column(Compiler *compiler, int catalog, Relation rel, StampRow *row, int member,
						   const Difference *difference);
static bool are_same_data(char *one, char *other);
static bool are_same_options(Datum one, Datum other);
static bool compile_difference(Compiler *compiler, Relation rel, StampRow *row,
							   const Difference *difference);
static bool compile_oids(Compiler *compiler, StampRow *row, const Difference *difference);
static bool compile_text(Compiler *compiler, StampRow *row, const Difference *difference);
static bool compile_named(Compiler *compiler, StampRow *row, const Difference *difference);
static int	add_text(Stamp *stamp, OidTemplate *text);
static void add_patch(StampRow *row, PatchKind kind, int what, int place);
static bool compile_files(Compiler *compiler);
static bool compile_file(Compiler *compiler, int member, Oid relid, Oid other_relid);
static FileImage *capture(Compiler *compiler, Oid relid);
static bool has_same_file(Compiler *compiler, const FileImage *image, Oid relid, Oid other_relid);
static bool has_rows(Compiler *compiler, Relation rel);
static bool verify_files(const Stamp *stamp, const MemberRows *clone, char **reason);
static void note_outside(Compiler *compiler);
static void add_outside(Compiler *compiler, Oid relid, LOCKMODE lockmode);

/*
 * The stamp of two clones that nobody but this transaction has touched; or
 * NULL, and the reason. Takes, and releases, AccessShareLock on relations of
 * the clones.
 */
Stamp *
stamp_compile_schemas(Oid schema, Oid other, char **reason)
{
	Compiler	compiler = {.what = "clones"};

	compiler.one = rows_of_schema(schema, reason);
	compiler.other = compiler.one == NULL ? NULL : rows_of_schema(other, reason);
	if (compiler.other == NULL)
		return NULL;
	compiler.stamp = palloc0(sizeof(Stamp));
	add_members(compiler.stamp, compiler.one);
	return compile(&compiler, reason);
}

/*
 * The same of two tables with their partitions, of which the first one's are
 * given; takes out of both's rows what is about a tablespace. Raises 0A000 for
 * a part that a stamp cannot carry, 55000 where somebody has changed one of the
 * tables, XX000 where PostgreSQL did something unknown here.
 */
Stamp *
stamp_compile_tables(const StampTable *tables, int ntables, MemberRows *one, MemberRows *other, char **reason)
{
	Compiler	compiler = {.one = one,.other = other,.what = "tables"};

	compiler.stamp = palloc0(sizeof(Stamp));
	add_members(compiler.stamp, one);
	stamp_prepare_tables(compiler.stamp, tables, ntables, one, other);
	return compile(&compiler, reason);
}

static Stamp *
compile(Compiler *compiler, char **reason)
{
	if (!compare_members(compiler) || !compile_files(compiler) || !compile_rows(compiler))
	{
		*reason = compiler->reason;
		return NULL;
	}
	note_outside(compiler);
	compiler->stamp->first = compiler->one;
	return compiler->stamp;
}

/*
 * Whether a clone that this transaction has made from the stamp, which is not
 * a kept one, could have been the other of the two it was compiled from; or
 * else the reason.
 */
bool
stamp_verify(const Stamp *stamp, Oid clone, char **reason)
{
	Stamp		again = {0};
	Compiler	compiler = {.one = stamp->first,.what = "clones",.stamp = &again};

	compiler.other = rows_of_schema(clone, reason);
	if (compiler.other == NULL || !verify_files(stamp, compiler.other, reason))
		return false;
	add_members(&again, compiler.one);
	if (!compare_members(&compiler) || !compile_rows(&compiler))
	{
		*reason = compiler.reason;
		return false;
	}
	return true;
}

static MemberRows *
rows_of_schema(Oid schema, char **reason)
{
	char	   *unknown;
	MemberRows *rows = member_rows_collect(NamespaceRelationId, schema, CATALOG_OF_SCHEMAS, &unknown);

	if (rows == NULL)
		*reason = psprintf("it has %s", unknown);
	return rows;
}

/* How many catalog rows a table or clone of this stamp has. */
int
stamp_rows(const Stamp *stamp)
{
	int			nrows = 0;

	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		nrows += stamp->nrows[i];
	return nrows;
}

static void
add_members(Stamp *stamp, const MemberRows *one)
{
	stamp->nmembers = one->nmembers;
	stamp->members = palloc0(stamp->nmembers * sizeof(StampMember));
	for (int i = 0; i < stamp->nmembers; i++)
	{
		stamp->members[i].classid = one->members[i].classid;
		stamp->members[i].file = -1;
		stamp->members[i].name = -1;
	}
}

/* Both must have been created in the same order. */
static bool
compare_members(Compiler *compiler)
{
	const MemberRows *one = compiler->one;
	const MemberRows *other = compiler->other;

	if (member_rows_match(one, other))
		return true;
	if (one->nmembers != other->nmembers)
		compiler->reason = psprintf("%s have %d and %d members", compiler->what, one->nmembers, other->nmembers);
	for (int i = 0; compiler->reason == NULL; i++)
		if (one->members[i].classid != other->members[i].classid)
			compiler->reason = psprintf("objects %u and %u of %s are of different kinds",
										one->members[i].objid, other->members[i].objid, compiler->what);
	return false;
}

static bool
compile_rows(Compiler *compiler)
{
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		if (!compile_catalog(compiler, i))
			return false;
	return true;
}

static bool
compile_catalog(Compiler *compiler, int catalog)
{
	const MemberRows *one = compiler->one;
	const MemberRows *other = compiler->other;
	Stamp	   *stamp = compiler->stamp;
	Relation	rel;
	bool		same = true;
	int			nrows = one->nrows[catalog];

	if (nrows == 0 && other->nrows[catalog] == 0)
		return true;
	rel = table_open(catalog_map[catalog].catalog, AccessShareLock);
	if (nrows != other->nrows[catalog])
	{
		compiler->reason = psprintf("%s have %d and %d rows in %s", compiler->what, nrows,
									other->nrows[catalog], RelationGetRelationName(rel));
		same = false;
	}
	else
	{
		stamp->nrows[catalog] = nrows;
		stamp->rows[catalog] = palloc0(nrows * sizeof(StampRow));
	}
	for (int i = 0; i < nrows && same; i++)
	{
		const MemberRow *row = &one->rows[catalog][i];
		const MemberRow *other_row = &other->rows[catalog][i];

		if (row->member != other_row->member)
		{
			compiler->reason = psprintf("%s have different rows in %s", compiler->what,
										RelationGetRelationName(rel));
			same = false;
			break;
		}
		stamp->rows[catalog][i].image = row->tuple;
		same = compile_row(compiler, catalog, rel, &stamp->rows[catalog][i], row, other_row);
	}
	table_close(rel, AccessShareLock);
	return same;
}

/* Find what in the row changes from one to the next. */
static bool
compile_row(Compiler *compiler, int catalog, Relation rel, StampRow *row, const MemberRow *one,
			const MemberRow *other)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	HeapTupleHeader header = one->tuple->t_data;
	HeapTupleHeader other_header = other->tuple->t_data;
	bool		has_nulls = HeapTupleHasNulls(one->tuple) || HeapTupleHasNulls(other->tuple);
	char	   *data = (char *) header + header->t_hoff;
	char	   *other_data = (char *) other_header + other_header->t_hoff;
	Size		at = 0;
	Size		other_at = 0;

	for (int i = 0; i < tupdesc->natts; i++)
	{
		Difference	difference = {.att = TupleDescAttr(tupdesc, i)};
		Form_pg_attribute att = difference.att;

		if (has_nulls)
		{
			bool		isnull = heap_attisnull(one->tuple, att->attnum, tupdesc);

			if (isnull != heap_attisnull(other->tuple, att->attnum, tupdesc))
			{
				compiler->reason = psprintf("%s.%s is null in one of two %s", RelationGetRelationName(rel),
											NameStr(att->attname), compiler->what);
				return false;
			}
			if (isnull)
				continue;
		}

		at = att_align_pointer(at, att->attalign, att->attlen, data + at);
		other_at = att_align_pointer(other_at, att->attalign, att->attlen, other_data + other_at);
		difference.place = header->t_hoff + at;
		difference.value = data + at;
		difference.other = other_data + other_at;
		at = att_addlength_pointer(at, att->attlen, data + at);
		other_at = att_addlength_pointer(other_at, att->attlen, other_data + other_at);
		difference.length = data + at - difference.value;
		difference.other_length = other_data + other_at - difference.other;

		if (!compile_column(compiler, catalog, rel, row, one->member, &difference))
		{
			compiler->reason = psprintf("nothing explains how %s.%s differs between %s",
										RelationGetRelationName(rel), NameStr(att->attname), compiler->what);
			return false;
		}
	}
	return true;
}

/* Add the patches for a column; false if it differs, and nothing explains that. */
static bool
compile_column(Compiler *compiler, int catalog, Relation rel, StampRow *row, int member,
			   const Difference *difference)
{
	const StampMember *owner = &compiler->stamp->members[member];
	Form_pg_attribute att = difference->att;

	/* these are never compared: time goes by between the two */
	if (catalog == CATALOG_CLASS &&
		(att->attnum == Anum_pg_class_relfrozenxid || att->attnum == Anum_pg_class_relminmxid))
	{
		TransactionId xid;

		memcpy(&xid, difference->value, sizeof(xid));
		if (att->attnum == Anum_pg_class_relminmxid && MultiXactIdIsValid(xid))
			add_patch(row, PATCH_MULTIXACT, 0, difference->place);
		else if (att->attnum == Anum_pg_class_relfrozenxid && TransactionIdIsNormal(xid))
			add_patch(row, PATCH_XID, 0, difference->place);
		return true;
	}
	/* nor what is chosen for each table; a catalog of objects has one name */
	if (owner->name >= 0 && att->atttypid == NAMEOID && OidIsValid(catalog_map[catalog].oid_index))
	{
		add_patch(row, PATCH_CHOSEN_NAME, owner->name, difference->place);
		return true;
	}
	if (owner->follows_table && catalog == CATALOG_CLASS && att->attnum == Anum_pg_class_reltablespace)
	{
		add_patch(row, PATCH_TABLESPACE, 0, difference->place);
		return true;
	}

	if (difference->length == difference->other_length &&
		memcmp(difference->value, difference->other, difference->length) == 0)
		return true;
	if (att->attlen == -1 && are_same_data(difference->value, difference->other))
		return true;
	if (catalog == CATALOG_ATTRIBUTE && att->attnum == Anum_pg_attribute_attoptions &&
		are_same_options(PointerGetDatum(difference->value), PointerGetDatum(difference->other)))
		return true;
	return compile_difference(compiler, rel, row, difference);
}

/*
 * Is only one of two values compressed? What a long row has compressed depends
 * on how it came to be, as its parts are compressed until it is short enough.
 */
static bool
are_same_data(char *one, char *other)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(PointerGetDatum(one));
	struct varlena *other_value = PG_DETOAST_DATUM_PACKED(PointerGetDatum(other));

	return VARSIZE_ANY_EXHDR(value) == VARSIZE_ANY_EXHDR(other_value) &&
		memcmp(VARDATA_ANY(value), VARDATA_ANY(other_value), VARSIZE_ANY_EXHDR(value)) == 0;
}

/*
 * Are options of a column the same, except for the WAL position at which its
 * row type last changed? Minor releases since November 2026 note that there.
 * A further one gets the first one's: a position before any change of it.
 */
static bool
are_same_options(Datum one, Datum other)
{
	static const char version[] = "pg_attver=";
	Datum	   *options;
	Datum	   *others;
	int			n;
	int			nothers;

	deconstruct_array(DatumGetArrayTypeP(one), TEXTOID, -1, false, TYPALIGN_INT, &options, NULL, &n);
	deconstruct_array(DatumGetArrayTypeP(other), TEXTOID, -1, false, TYPALIGN_INT, &others, NULL, &nothers);
	if (n != nothers)
		return false;
	for (int i = 0; i < n; i++)
	{
		const char *option = TextDatumGetCString(options[i]);
		const char *counterpart = TextDatumGetCString(others[i]);

		if (strcmp(option, counterpart) != 0 &&
			(strncmp(option, version, strlen(version)) != 0 ||
			 strncmp(counterpart, version, strlen(version)) != 0))
			return false;
	}
	return true;
}

/* Whether what differs is explained; adds the patches for it. */
static bool
compile_difference(Compiler *compiler, Relation rel, StampRow *row, const Difference *difference)
{
	switch (difference->att->atttypid)
	{
		case OIDOID:
		case REGPROCOID:
		case OIDVECTOROID:
		case OIDARRAYOID:
			return compile_oids(compiler, row, difference);

		case NAMEOID:
			if (RelationGetRelid(rel) == NamespaceRelationId)
			{
				if (strcmp(difference->value, compiler->one->name) != 0 ||
					strcmp(difference->other, compiler->other->name) != 0)
					return false;
				add_patch(row, PATCH_SCHEMA_NAME, 0, difference->place);
				return true;
			}
			return compile_text(compiler, row, difference);

		case PG_NODE_TREEOID:
			return compile_text(compiler, row, difference);

		case TEXTOID:
		case TEXTARRAYOID:
			return RelationGetRelid(rel) == ProcedureRelationId && compile_named(compiler, row, difference);

		default:
			return false;
	}
}

/* One OID, or an array of them, which is not compressed in the first of the two. */
static bool
compile_oids(Compiler *compiler, StampRow *row, const Difference *difference)
{
	const char *data = difference->value;
	const char *other_data = difference->other;
	int			length = difference->length;
	int			other_length = difference->other_length;
	int			first = 0;

	if (difference->att->attlen == -1)
	{
		Assert(!VARATT_IS_EXTENDED(data) || VARATT_IS_SHORT(data));
		other_data = (char *) PG_DETOAST_DATUM_PACKED(PointerGetDatum(other_data));
		length = VARSIZE_ANY_EXHDR(data);
		other_length = VARSIZE_ANY_EXHDR(other_data);
		data = VARDATA_ANY(data);
		other_data = VARDATA_ANY(other_data);
		/* the numbers before its elements say how many they are, and of what */
		first = ARR_OVERHEAD_NONULLS(1) - VARHDRSZ;
	}
	if (length != other_length || length < first || (length - first) % sizeof(Oid) != 0 ||
		memcmp(data, other_data, first) != 0)
		return false;
	for (int at = first; at < length; at += sizeof(Oid))
	{
		Oid			oid;
		Oid			other_oid;
		int			member;

		memcpy(&oid, data + at, sizeof(Oid));
		memcpy(&other_oid, other_data + at, sizeof(Oid));
		if (oid == other_oid)
			continue;
		member = member_rows_explain(compiler->one, compiler->other, oid, other_oid);
		if (member < 0)
			return false;
		add_patch(row, PATCH_OID, member, difference->place + (data - difference->value) + at);
	}
	return true;
}

/* A name, or a stored expression. */
static bool
compile_text(Compiler *compiler, StampRow *row, const Difference *difference)
{
	Stamp	   *stamp = compiler->stamp;
	bool		is_name = difference->att->atttypid == NAMEOID;
	char	   *one = difference->value;
	char	   *other = difference->other;
	OidTemplate *found;

	if (!is_name)
	{
		one = TextDatumGetCString(PointerGetDatum(one));
		other = TextDatumGetCString(PointerGetDatum(other));
	}
	found = oid_template_compare(compiler->one, compiler->other, one, other, is_name);
	if (found == NULL)
		return false;
	/* a row with it would be compressed, whatever else it has */
	if (!is_name && strlen(one) > TOAST_TUPLE_THRESHOLD)
		oid_template_pack(found);

	if (is_name)
		add_patch(row, PATCH_NAME, add_text(stamp, found), difference->place);
	else
		add_patch(row, PATCH_TREE, add_text(stamp, found), difference->att->attnum);
	return true;
}

/* The text of a function, or its settings, with the schema's name in them. */
static bool
compile_named(Compiler *compiler, StampRow *row, const Difference *difference)
{
	bool		is_body = difference->att->atttypid == TEXTOID;
	OidTemplate *found = (is_body ? named_body_compare : named_settings_compare)
		(compiler->one, compiler->other, PointerGetDatum(difference->value), PointerGetDatum(difference->other));

	if (found != NULL)
		add_patch(row, is_body ? PATCH_BODY : PATCH_SETTINGS, add_text(compiler->stamp, found),
				  difference->att->attnum);
	return found != NULL;
}

/* Its place among the stamp's. */
static int
add_text(Stamp *stamp, OidTemplate *text)
{
	/* grown by powers of two */
	if ((stamp->ntexts & (stamp->ntexts - 1)) == 0)
		stamp->texts = stamp->texts == NULL ? palloc(sizeof(OidTemplate *)) :
			repalloc(stamp->texts, stamp->ntexts * 2 * sizeof(OidTemplate *));
	stamp->texts[stamp->ntexts] = text;
	return stamp->ntexts++;
}

static void
add_patch(StampRow *row, PatchKind kind, int what, int place)
{
	StampPatch *patch;

	/* grown by powers of two */
	if ((row->npatches & (row->npatches - 1)) == 0)
		row->patches = row->patches == NULL ? palloc(sizeof(StampPatch)) :
			repalloc(row->patches, row->npatches * 2 * sizeof(StampPatch));
	patch = &row->patches[row->npatches++];
	patch->kind = kind;
	patch->what = what;
	patch->place = place;
	if (kind == PATCH_TREE || kind == PATCH_BODY || kind == PATCH_SETTINGS)
		row->has_trees = true;
}

/* ---- files ---- */

static bool
compile_files(Compiler *compiler)
{
	const MemberRows *one = compiler->one;

	for (int i = 0; i < one->nrows[CATALOG_CLASS]; i++)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(one->rows[CATALOG_CLASS][i].tuple);
		int			relation = one->rows[CATALOG_CLASS][i].member;
		int			member = relation;

		if (!RELKIND_HAS_STORAGE(form->relkind) || file_number_is_lazy(form->relfilenode))
			continue;
		if (form->relfilenode != form->oid)
			member = member_rows_find(one, InvalidOid, form->relfilenode);
		if (member < 0)
		{
			compiler->reason = psprintf("relation \"%s\" has no file of its own", NameStr(form->relname));
			return false;
		}
		compiler->stamp->members[member].tablespace = form->reltablespace;
		if (!compile_file(compiler, member, form->oid, compiler->other->members[relation].objid))
			return false;
	}
	return true;
}

static bool
compile_file(Compiler *compiler, int member, Oid relid, Oid other_relid)
{
	Stamp	   *stamp = compiler->stamp;
	FileImage  *image = capture(compiler, relid);

	if (image == NULL || !has_same_file(compiler, image, relid, other_relid))
		return false;

	for (int i = 0; i < stamp->nfiles; i++)
	{
		if (file_image_equal(stamp->files[i], image))
		{
			file_image_free(image);
			stamp->members[member].file = i;
			return true;
		}
	}
	/* grown by powers of two */
	if ((stamp->nfiles & (stamp->nfiles - 1)) == 0)
		stamp->files = stamp->files == NULL ? palloc(sizeof(FileImage *)) :
			repalloc(stamp->files, stamp->nfiles * 2 * sizeof(FileImage *));
	stamp->members[member].file = stamp->nfiles;
	stamp->files[stamp->nfiles++] = image;
	return true;
}

/* The forks of a relation without rows; NULL, and the reason, if it has some. */
static FileImage *
capture(Compiler *compiler, Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	FileImage  *image = has_rows(compiler, rel) ? NULL : file_image_capture(rel);

	relation_close(rel, AccessShareLock);
	return image;
}

/* Whether the files of the other one's relation are those of the image; if not, the reason. */
static bool
has_same_file(Compiler *compiler, const FileImage *image, Oid relid, Oid other_relid)
{
	Relation	other = relation_open(other_relid, AccessShareLock);
	bool		same = !has_rows(compiler, other) && file_image_is_of_relation(image, other);

	relation_close(other, AccessShareLock);
	if (!same && compiler->reason == NULL)
		compiler->reason = psprintf("the files of relations %u and %u differ", relid, other_relid);
	return same;
}

static bool
has_rows(Compiler *compiler, Relation rel)
{
	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || RelationGetNumberOfBlocks(rel) == 0)
		return false;
	compiler->reason = psprintf("\"%s\" has rows", RelationGetRelationName(rel));
	return true;
}

/* Are the files of a clone those of the stamp? Nobody has read them into shared buffers. */
static bool
verify_files(const Stamp *stamp, const MemberRows *clone, char **reason)
{
	for (int i = 0; i < stamp->nmembers && i < clone->nmembers; i++)
	{
		const StampMember *member = &stamp->members[i];

		if (member->file >= 0 &&
			!file_image_is_of(stamp->files[member->file], stamp_locator(member->tablespace, clone->members[i].objid)))
		{
			*reason = psprintf("the file of relation %u is not the first clone's", clone->members[i].objid);
			return false;
		}
	}
	return true;
}

/* ---- relations outside ---- */

/* Which relations outside they refer to, and how CREATE locks them. */
static void
note_outside(Compiler *compiler)
{
	const MemberRows *one = compiler->one;

	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		for (int j = 0; j < one->nrows[i]; j++)
		{
			void	   *form = GETSTRUCT(one->rows[i][j].tuple);

			if (catalog_map[i].catalog == TriggerRelationId)
				add_outside(compiler, ((Form_pg_trigger) form)->tgrelid, ShareRowExclusiveLock);
			else if (catalog_map[i].catalog == InheritsRelationId)
				add_outside(compiler, ((Form_pg_inherits) form)->inhparent, ShareUpdateExclusiveLock);
			else if (catalog_map[i].catalog == DependRelationId &&
					 ((Form_pg_depend) form)->refclassid == RelationRelationId)
				add_outside(compiler, ((Form_pg_depend) form)->refobjid, AccessShareLock);
		}
	}
}

static void
add_outside(Compiler *compiler, Oid relid, LOCKMODE lockmode)
{
	Stamp	   *stamp = compiler->stamp;

	if (member_rows_find(compiler->one, RelationRelationId, relid) >= 0)
		return;
	for (int i = 0; i < stamp->noutside; i++)
	{
		if (stamp->outside[i].relid == relid)
		{
			stamp->outside[i].lockmode = Max(stamp->outside[i].lockmode, lockmode);
			return;
		}
	}
	if (stamp->noutside == compiler->outside_size)
	{
		compiler->outside_size = Max(8, compiler->outside_size * 2);
		stamp->outside = stamp->outside == NULL ?
			palloc(compiler->outside_size * sizeof(StampOutside)) :
			repalloc(stamp->outside, compiler->outside_size * sizeof(StampOutside));
	}
	stamp->outside[stamp->noutside].relid = relid;
	stamp->outside[stamp->noutside++].lockmode = lockmode;
}
