"""What the owner of a tenant can leave in it for the superuser who takes it elsewhere."""

from __future__ import annotations

import re

from psycopg import sql

GRAB = """
    CREATE FUNCTION grab_now() RETURNS boolean LANGUAGE plpgsql AS $trap$ BEGIN
        EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE eve SUPERUSER'; RETURN true;
    EXCEPTION WHEN OTHERS THEN RETURN true; END $trap$;
    -- what is not volatile runs no such statements itself
    CREATE FUNCTION grab(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
        $trap$ BEGIN RETURN {schema}.grab_now(); END $trap$;
"""
TRAP = (
    GRAB
    + """
    CREATE FUNCTION grab() RETURNS trigger LANGUAGE plpgsql AS
        $trap$ BEGIN PERFORM {schema}.grab('trigger'); RETURN NEW; END $trap$;
    CREATE FUNCTION equal(text, varchar) RETURNS boolean LANGUAGE sql AS $trap$SELECT {schema}.grab('operator')$trap$;
    CREATE OPERATOR = (LEFTARG = text, RIGHTARG = varchar, FUNCTION = equal);
    CREATE FUNCTION step(bigint) RETURNS bigint LANGUAGE sql AS $trap$SELECT {schema}.grab('aggregate')::int$trap$;
    CREATE AGGREGATE count(*) (SFUNC = step, STYPE = bigint, INITCOND = '0');
    CREATE FUNCTION format(text, VARIADIC name[]) RETURNS text LANGUAGE sql AS
        $trap$SELECT {schema}.grab('format')::text$trap$;
    CREATE VIEW pg_class AS SELECT * FROM pg_catalog.pg_class WHERE {schema}.grab('view');
    CREATE VIEW pg_namespace AS SELECT * FROM pg_catalog.pg_namespace WHERE {schema}.grab('view');
    CREATE TABLE t (i integer DEFAULT {schema}.grab('default')::int, t text);
    INSERT INTO t SELECT i, i::text FROM generate_series(1, 10) i;
    ALTER TABLE t ADD CHECK ({schema}.grab(t)) NOT VALID;
    CREATE INDEX ON t ({schema}.grab(t));
    CREATE STATISTICS s ON ({schema}.grab(t)), i FROM t;
    CREATE TRIGGER grab BEFORE INSERT OR UPDATE OR TRUNCATE ON t EXECUTE FUNCTION grab();
    CREATE TRIGGER each BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION grab();
    CREATE RULE r AS ON UPDATE TO t DO ALSO SELECT {schema}.grab('rule');
    CREATE POLICY p ON t USING ({schema}.grab('policy'));
    ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE TABLE parts (i integer, t text) PARTITION BY LIST (i);
    CREATE TABLE part PARTITION OF parts FOR VALUES IN (1);
    INSERT INTO parts VALUES (1, 'x');
    CREATE MATERIALIZED VIEW m AS SELECT {schema}.grab(t) FROM parts;
    CREATE INDEX ON m ((grab), {schema}.grab('of view'));
"""
)
# names of everything that has one
ODD = (
    "a\nALTER ROLE eve SUPERUSER;\n--",
    '";ALTER ROLE eve SUPERUSER;--',
    "';ALTER ROLE eve SUPERUSER;--",
    "\\';ALTER ROLE eve SUPERUSER;--",
    "a\n\\! touch {mark}\n",
    "$$;ALTER ROLE eve SUPERUSER;$$",
    "*/ALTER ROLE eve SUPERUSER;--",
    "\\connect x",
    "%s %I {0}",
)
NAMED = """
    CREATE TABLE {name} ({name} integer PRIMARY KEY, CONSTRAINT {name}2 CHECK ({name} > 0));
    CREATE SEQUENCE {name}3; CREATE VIEW {name}4 AS SELECT {name} FROM {name};
    CREATE FUNCTION {name}({name} integer) RETURNS integer LANGUAGE sql AS {text};
    CREATE TYPE {name}5 AS ENUM ({text}); CREATE INDEX {name}6 ON {name} ({name});
    CREATE POLICY {name} ON {name}; CREATE RULE {name} AS ON UPDATE TO {name} DO INSTEAD NOTHING;
    CREATE FUNCTION {name}7() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
    CREATE TRIGGER {name} BEFORE DELETE ON {name} EXECUTE FUNCTION {name}7({text});
    ALTER TABLE {name} ALTER {name} SET DEFAULT length({text});
    COMMENT ON TABLE {name} IS {text}; COMMENT ON COLUMN {name}.{name} IS {text}; COMMENT ON SCHEMA {schema} IS {text};
    INSERT INTO {name} VALUES (1);
"""


def named(name: str, schema: str) -> sql.Composed:
    """The statements of NAMED with a name, which has a number where there are several."""
    parts: list[sql.Composable] = []
    for piece in re.split(r"(\{\w+\}\d?)", NAMED):
        match re.fullmatch(r"\{(\w+)\}(\d?)", piece):
            case None:
                parts.append(sql.SQL(piece))
            case found if found[1] == "name":
                parts.append(sql.Identifier(name + found[2]))
            case found:
                parts.append({"text": sql.Literal(name), "schema": sql.Identifier(schema)}[found[1]])
    return sql.Composed(parts)
