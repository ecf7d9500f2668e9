-- Bytes on disk of each catalog a table has rows in, indexes included. Cheap: a few files each, however many tables.
SELECT c::text, pg_total_relation_size(c)
FROM unnest('{pg_class,pg_attribute,pg_type,pg_depend,pg_shdepend,pg_index,pg_constraint,pg_attrdef,pg_sequence,
pg_statistic_ext,pg_description}'::regclass[]) c
