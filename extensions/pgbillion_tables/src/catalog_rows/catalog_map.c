/*-------------------------------------------------------------------------
 *
 * catalog_map.c
 *	  Which catalogs have rows about what, and how these are found.
 *
 * What a column of a catalog refers to is not written down here: it comes from
 * the list that PostgreSQL generates of its catalogs' foreign keys (see
 * pg_get_catalog_foreign_keys()), so that a column which a new major version
 * adds is known, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/indexing.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_default_acl.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_init_privs.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_range.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_statistic_ext_data.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_ts_config.h"
#include "catalog/pg_ts_config_map.h"
#include "catalog/pg_ts_dict.h"
#include "catalog/pg_type.h"
#include "catalog/system_fk_info.h"

#include "catalog_rows/catalog_rows.h"

const CatalogLookup catalog_map[NUM_CATALOG_LOOKUPS] = {
	[CATALOG_NAMESPACE] = {NamespaceRelationId, NamespaceOidIndexId, NamespaceOidIndexId,
	Anum_pg_namespace_oid, 0, 0, NamespaceRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_CLASS] = {RelationRelationId, ClassOidIndexId, ClassOidIndexId,
	Anum_pg_class_oid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_ATTRIBUTE] = {AttributeRelationId, InvalidOid, AttributeRelidNumIndexId,
	Anum_pg_attribute_attrelid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_INDEX] = {IndexRelationId, InvalidOid, IndexRelidIndexId,
	Anum_pg_index_indexrelid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_SEQUENCE] = {SequenceRelationId, InvalidOid, SequenceRelidIndexId,
	Anum_pg_sequence_seqrelid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_INHERITS] = {InheritsRelationId, InvalidOid, InheritsRelidSeqnoIndexId,
	Anum_pg_inherits_inhrelid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_PARTITIONED_TABLE] = {PartitionedRelationId, InvalidOid, PartitionedRelidIndexId,
	Anum_pg_partitioned_table_partrelid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_STATISTIC] = {StatisticRelationId, InvalidOid, StatisticRelidAttnumInhIndexId,
	Anum_pg_statistic_starelid, 0, 0, RelationRelationId, CATALOG_OF_BOTH},
	[CATALOG_TYPE] = {TypeRelationId, TypeOidIndexId, TypeOidIndexId,
	Anum_pg_type_oid, 0, 0, TypeRelationId, CATALOG_OF_BOTH},
	[CATALOG_ENUM] = {EnumRelationId, EnumOidIndexId, EnumOidIndexId,
	Anum_pg_enum_oid, 0, 0, EnumRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_RANGE] = {RangeRelationId, InvalidOid, RangeTypidIndexId,
	Anum_pg_range_rngtypid, 0, 0, TypeRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_CAST] = {CastRelationId, CastOidIndexId, CastOidIndexId,
	Anum_pg_cast_oid, 0, 0, CastRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_PROC] = {ProcedureRelationId, ProcedureOidIndexId, ProcedureOidIndexId,
	Anum_pg_proc_oid, 0, 0, ProcedureRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_ATTRDEF] = {AttrDefaultRelationId, AttrDefaultOidIndexId, AttrDefaultOidIndexId,
	Anum_pg_attrdef_oid, 0, 0, AttrDefaultRelationId, CATALOG_OF_BOTH},
	[CATALOG_CONSTRAINT] = {ConstraintRelationId, ConstraintOidIndexId, ConstraintOidIndexId,
	Anum_pg_constraint_oid, 0, 0, ConstraintRelationId, CATALOG_OF_BOTH},
	[CATALOG_TRIGGER] = {TriggerRelationId, TriggerOidIndexId, TriggerOidIndexId,
	Anum_pg_trigger_oid, 0, 0, TriggerRelationId, CATALOG_OF_BOTH},
	[CATALOG_REWRITE] = {RewriteRelationId, RewriteOidIndexId, RewriteOidIndexId,
	Anum_pg_rewrite_oid, 0, 0, RewriteRelationId, CATALOG_OF_BOTH},
	[CATALOG_POLICY] = {PolicyRelationId, PolicyOidIndexId, PolicyOidIndexId,
	Anum_pg_policy_oid, 0, 0, PolicyRelationId, CATALOG_OF_BOTH},
	[CATALOG_STATISTIC_EXT] = {StatisticExtRelationId, StatisticExtOidIndexId, StatisticExtOidIndexId,
	Anum_pg_statistic_ext_oid, 0, 0, StatisticExtRelationId, CATALOG_OF_BOTH},
	[CATALOG_STATISTIC_EXT_DATA] = {StatisticExtDataRelationId, InvalidOid, StatisticExtDataStxoidInhIndexId,
	Anum_pg_statistic_ext_data_stxoid, 0, 0, StatisticExtRelationId, CATALOG_OF_TABLES},
	[CATALOG_DEFAULT_ACL] = {DefaultAclRelationId, DefaultAclOidIndexId, DefaultAclOidIndexId,
	Anum_pg_default_acl_oid, 0, 0, DefaultAclRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_AGGREGATE] = {AggregateRelationId, InvalidOid, AggregateFnoidIndexId,
	Anum_pg_aggregate_aggfnoid, 0, 0, ProcedureRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_OPERATOR] = {OperatorRelationId, OperatorOidIndexId, OperatorOidIndexId,
	Anum_pg_operator_oid, 0, 0, OperatorRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_COLLATION] = {CollationRelationId, CollationOidIndexId, CollationOidIndexId,
	Anum_pg_collation_oid, 0, 0, CollationRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_TS_DICT] = {TSDictionaryRelationId, TSDictionaryOidIndexId, TSDictionaryOidIndexId,
	Anum_pg_ts_dict_oid, 0, 0, TSDictionaryRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_TS_CONFIG] = {TSConfigRelationId, TSConfigOidIndexId, TSConfigOidIndexId,
	Anum_pg_ts_config_oid, 0, 0, TSConfigRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_TS_CONFIG_MAP] = {TSConfigMapRelationId, InvalidOid, TSConfigMapIndexId,
	Anum_pg_ts_config_map_mapcfg, 0, 0, TSConfigRelationId, CATALOG_OF_SCHEMAS},
	[CATALOG_DEPEND] = {DependRelationId, InvalidOid, DependDependerIndexId,
	Anum_pg_depend_objid, Anum_pg_depend_classid, 0, InvalidOid, CATALOG_OF_BOTH},
	[CATALOG_SHDEPEND] = {SharedDependRelationId, InvalidOid, SharedDependDependerIndexId,
	Anum_pg_shdepend_objid, Anum_pg_shdepend_classid, Anum_pg_shdepend_dbid, InvalidOid, CATALOG_OF_BOTH},
	[CATALOG_DESCRIPTION] = {DescriptionRelationId, InvalidOid, DescriptionObjIndexId,
	Anum_pg_description_objoid, Anum_pg_description_classoid, 0, InvalidOid, CATALOG_OF_BOTH},
	[CATALOG_INIT_PRIVS] = {InitPrivsRelationId, InvalidOid, InitPrivsObjIndexId,
	Anum_pg_init_privs_objoid, Anum_pg_init_privs_classoid, 0, InvalidOid, CATALOG_OF_TABLES},
	[CATALOG_SECLABEL] = {SecLabelRelationId, InvalidOid, SecLabelObjectIndexId,
	Anum_pg_seclabel_objoid, Anum_pg_seclabel_classoid, 0, InvalidOid, CATALOG_OF_BOTH},
	[DEPEND_BY_REFERENCE] = {DependRelationId, InvalidOid, DependReferenceIndexId,
	Anum_pg_depend_refobjid, Anum_pg_depend_refclassid, 0, InvalidOid, 0},
	[ENUM_BY_TYPE] = {EnumRelationId, InvalidOid, EnumTypIdLabelIndexId,
	Anum_pg_enum_enumtypid, 0, 0, TypeRelationId, 0},
	[INDEX_BY_TABLE] = {IndexRelationId, InvalidOid, IndexIndrelidIndexId,
	Anum_pg_index_indrelid, 0, 0, RelationRelationId, 0},
	[ATTRDEF_BY_TABLE] = {AttrDefaultRelationId, InvalidOid, AttrDefaultIndexId,
	Anum_pg_attrdef_adrelid, 0, 0, RelationRelationId, 0},
	[CONSTRAINT_BY_TABLE] = {ConstraintRelationId, InvalidOid, ConstraintRelidTypidNameIndexId,
	Anum_pg_constraint_conrelid, 0, 0, RelationRelationId, 0},
	[CONSTRAINT_BY_DOMAIN] = {ConstraintRelationId, InvalidOid, ConstraintTypidIndexId,
	Anum_pg_constraint_contypid, 0, 0, TypeRelationId, 0},
	[TRIGGER_BY_TABLE] = {TriggerRelationId, InvalidOid, TriggerRelidNameIndexId,
	Anum_pg_trigger_tgrelid, 0, 0, RelationRelationId, 0},
	[RULE_BY_TABLE] = {RewriteRelationId, InvalidOid, RewriteRelRulenameIndexId,
	Anum_pg_rewrite_ev_class, 0, 0, RelationRelationId, 0},
	[POLICY_BY_TABLE] = {PolicyRelationId, InvalidOid, PolicyPolrelidPolnameIndexId,
	Anum_pg_policy_polrelid, 0, 0, RelationRelationId, 0},
	[FOREIGN_TABLE_BY_TABLE] = {ForeignTableRelationId, InvalidOid, ForeignTableRelidIndexId,
	Anum_pg_foreign_table_ftrelid, 0, 0, RelationRelationId, 0},
	[SUBSCRIPTION_REL_BY_TABLE] = {SubscriptionRelRelationId, InvalidOid, SubscriptionRelSrrelidSrsubidIndexId,
	Anum_pg_subscription_rel_srrelid, 0, 0, RelationRelationId, 0},
	[LANGUAGE] = {LanguageRelationId, InvalidOid, LanguageOidIndexId,
	Anum_pg_language_oid, 0, 0, LanguageRelationId, 0},
};

/* Do rows of this catalog make objects that belong to tables, or to schemas? */
bool
catalog_has_objects(Oid catalog, CatalogScope scope)
{
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		if (catalog_map[i].catalog == catalog && (catalog_map[i].scope & scope) != 0)
			return OidIsValid(catalog_map[i].oid_index);
	return false;
}

/*
 * The catalog whose OIDs a column of another one holds, or of which it holds
 * an array: *is_array. InvalidOid if it holds none.
 */
Oid
catalog_referred_to(Oid catalog, const char *column, bool *is_array)
{
	int			length = strlen(column);

	for (int i = 0; i < lengthof(sys_fk_relationships); i++)
	{
		const SysFKRelationship *fk = &sys_fk_relationships[i];

		/* those of two columns are of attribute numbers */
		if (fk->fk_table == catalog && strncmp(fk->fk_columns + 1, column, length) == 0 &&
			strcmp(fk->fk_columns + 1 + length, "}") == 0)
		{
			*is_array = fk->is_array;
			return fk->pk_table;
		}
	}
	return InvalidOid;
}
