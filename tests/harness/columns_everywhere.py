"""A columnar index on every table that takes one, as soon as there is one: for PostgreSQL's own suites."""

from __future__ import annotations

import re
from collections.abc import Iterable

# what forces reading from it, and tells in the log what was read
SETTINGS = (
    ("pgbillion_rows.columns", "force"),
    ("auto_explain.log_analyze", "on"),
    ("auto_explain.log_timing", "off"),
)

# of up to 32 columns; of a table that has lost its index with a column, a new one
TRIGGER = """
CREATE SCHEMA everywhere;
CREATE FUNCTION everywhere.add_index() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET default_tablespace = '' AS $$
DECLARE
    made oid;
    names text;
BEGIN
    FOR made IN
        SELECT DISTINCT c.oid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
        JOIN pg_am a ON a.oid = c.relam
        WHERE d.classid = 'pg_class'::regclass AND relkind IN ('r', 'm') AND amname = 'heap'
          AND NOT EXISTS (SELECT FROM pg_index i JOIN pg_class x ON x.oid = indexrelid JOIN pg_am m ON m.oid = x.relam
                          WHERE indrelid = c.oid AND m.amname = 'columns')
    LOOP
        SELECT string_agg(format('%I', attname), ', ' ORDER BY attnum) INTO names FROM (
            SELECT attname, attnum FROM pg_attribute
            WHERE attrelid = made AND attnum > 0 AND NOT attisdropped AND attlen <> -2 ORDER BY attnum LIMIT 32) t;
        IF names IS NOT NULL THEN
            BEGIN
                EXECUTE format('CREATE INDEX zz_columns_%s ON %s USING columns (%s)', made, made::regclass, names);
                RAISE LOG 'columns of %', made;
            EXCEPTION WHEN object_in_use OR feature_not_supported THEN
                -- a row that is still to be looked at by a trigger
                RAISE LOG 'no columns of %: %', made, sqlerrm;
            END;
        END IF;
    END LOOP;
END $$;
CREATE EVENT TRIGGER everywhere_add_index ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE MATERIALIZED VIEW', 'ALTER TABLE')
    EXECUTE FUNCTION everywhere.add_index();
"""


# what describing commands show of them, and what their builds tell
_SHOWN = re.compile(
    r' +"[^"]+" columns \(|(s\d+: )?NOTICE:  index "zz_columns_\d+" holds|HINT:  VACUUM the table: only blocks whose'
)


def without_indexes(lines: Iterable[str]) -> list[str]:
    """Leave out what is shown of such indexes, and numbers that are by chance."""
    kept = [re.sub(r"zz_columns_\d+", "zz_columns_N", line) for line in lines if not _SHOWN.match(line)]
    # the function above, and the operator class of the index
    kept = [re.sub(r"\b1[6-9]\d{3}\b", "N", line) if re.search("add_index|zz_col", line) else line for line in kept]
    return [
        line
        for line, following in zip(kept, [*kept[1:], ""], strict=True)
        if line != "Indexes:" or following.startswith('    "')
    ]


def count(log: Iterable[str]) -> tuple[int, int]:
    """How many indexes were made, and in how many plans blocks were read from one."""
    made = read = 0
    for line in log:
        made += "LOG:  columns of " in line
        read += bool(re.search(r"Column Segments: segments=[1-9]", line))
    return made, read
