"""Templates to make tables after: one for each feature by name, and generated mixtures of all of them.

A template is a script that creates ``t.template``; `WORLD` makes what the scripts refer to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from hypothesis import strategies as st

TEMPLATE = "t.template"

WORLD = """
    CREATE SCHEMA t;
    CREATE TYPE t.mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TYPE t.pair AS (a int, b text);
    CREATE DOMAIN t.positive AS int CHECK (VALUE > 0);
    CREATE DOMAIN t.code AS text COLLATE "C" NOT NULL DEFAULT 'none' CHECK (VALUE <> '');
    CREATE TYPE t.span AS RANGE (subtype = float8);
    CREATE FUNCTION t.twice(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN $1 * 2;
    CREATE FUNCTION t.label() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN 'label'; END $$;
    CREATE OPERATOR CLASS t.int4_down FOR TYPE int4 USING btree AS
        OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 btint4cmp(int4, int4);
    CREATE COLLATION t.plain (provider = libc, locale = 'C');
    CREATE SEQUENCE t.shared;
"""


@dataclass(frozen=True)
class Case:
    """A script and the least major version that has what it uses."""

    script: str
    since: int = 15
    extension: str | None = None


def _table(columns: str, *more: str) -> str:
    return ";\n".join([f"CREATE TABLE t.template ({columns})", *more])


# One feature each, so that a failure tells what broke.
CASES: Mapping[str, Case] = {
    "one_column": Case(_table("i integer")),
    "no_column": Case(_table("")),
    "serial_primary_key": Case(_table("id serial PRIMARY KEY, t text")),
    "bigint_text_jsonb": Case(_table("id bigint PRIMARY KEY, name text, data jsonb")),
    "builtin_types": Case(
        _table(
            'a int2, b int8, c float4, d float8, e numeric(12, 3), f bool, g "char", h char(7), i varchar(9), j name,'
            " k text, l bytea, m date, n time, o timetz, p timestamp(3), q timestamptz, r interval day to second(2),"
            " s uuid, t inet, u macaddr, v bit(5), w varbit(9), x money, y point, z polygon, aa json, ab jsonb,"
            " ac xml, ad tsvector, ae oid, af regclass, ag regtype, ah pg_lsn, ai int4range, aj nummultirange, ak cidr"
        )
    ),
    "arrays": Case(_table("a int[], b text[][], c t.mood[], d t.pair[], e t.positive[], f t.span[], g int4range[]")),
    "user_types": Case(_table("a t.mood, b t.pair, c t.positive, d t.code, e t.span, f t.span[]")),
    "extension_type": Case(_table("a public.citext PRIMARY KEY, b public.citext[]"), extension="citext"),
    "many_columns": Case(_table(", ".join(f"c{n} int" for n in range(1, 1601)))),
    "not_null": Case(_table("a int NOT NULL, b text NOT NULL, c t.code")),
    "not_null_named": Case(
        _table("a int CONSTRAINT never NOT NULL, b int CONSTRAINT nie NOT NULL NO INHERIT"), since=18
    ),
    "not_null_not_valid": Case(
        _table("a int", "ALTER TABLE t.template ADD CONSTRAINT nn NOT NULL a NOT VALID"), since=18
    ),
    "defaults": Case(
        _table(
            "a int DEFAULT 7, b text DEFAULT 'it''s', c timestamptz DEFAULT now(), d int DEFAULT t.twice(4),"
            " e text DEFAULT t.label(), f int[] DEFAULT '{1,2}', g t.pair DEFAULT ROW (1,"
            " 'x')::t.pair, h int DEFAULT NULL,"
            " i regclass DEFAULT 'pg_class', j uuid DEFAULT gen_random_uuid(), k text DEFAULT current_user,"
            " l t.mood DEFAULT 'ok', m text DEFAULT ('a' || 1 + 2)::text COLLATE \"C\""
        )
    ),
    "default_shared_sequence": Case(
        _table("a bigint DEFAULT nextval('t.shared'), b bigint DEFAULT nextval('t.shared'::text)")
    ),
    "default_refers_to_template": Case(
        _table("a regclass, b int", "ALTER TABLE t.template ALTER a SET DEFAULT 't.template'::regclass")
    ),
    "generated_stored": Case(
        _table(
            "a int, b int GENERATED ALWAYS AS (a * 2) STORED, c int GENERATED ALWAYS AS (t.twice(a)) STORED NOT NULL"
        )
    ),
    "generated_virtual": Case(
        _table("a int, b int GENERATED ALWAYS AS (a + 1) VIRTUAL, c text GENERATED ALWAYS AS ('x') VIRTUAL"), since=18
    ),
    "check": Case(
        _table(
            'a int CHECK (a > 0), b int, CHECK (a < b), CONSTRAINT "Named One" CHECK (t.twice(b) > 4),'
            " CONSTRAINT heirless CHECK (b <> 9) NO INHERIT, CHECK (a IS NOT NULL OR b IS NOT NULL)"
        )
    ),
    "check_not_valid": Case(_table("a int", "ALTER TABLE t.template ADD CONSTRAINT later CHECK (a > 0) NOT VALID")),
    "check_not_enforced": Case(_table("a int CHECK (a > 0) NOT ENFORCED"), since=18),
    "primary_key": Case(_table("a int, b text, PRIMARY KEY (b, a)")),
    "primary_key_named": Case(
        _table('a int, b int, CONSTRAINT "The Key" PRIMARY KEY (a) INCLUDE (b) WITH (fillfactor = 60)')
    ),
    "primary_key_deferrable": Case(_table("a int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED")),
    "primary_key_without_overlaps": Case(
        _table("a int, b int4range, PRIMARY KEY (a, b WITHOUT OVERLAPS)"), since=18, extension="btree_gist"
    ),
    "unique": Case(_table("a int UNIQUE, b int, c int, UNIQUE (a, b), UNIQUE (b, a), UNIQUE (c) DEFERRABLE")),
    "unique_nulls_not_distinct": Case(
        _table("a int, UNIQUE NULLS NOT DISTINCT (a)", "CREATE UNIQUE INDEX ON t.template (a) NULLS NOT DISTINCT")
    ),
    "unique_index": Case(
        _table("a int, b int", "CREATE UNIQUE INDEX ON t.template (a, b)", "CREATE UNIQUE INDEX ON t.template (b)")
    ),
    "exclusion": Case(
        _table(
            "a int4range, b point, EXCLUDE USING gist (a WITH &&), CONSTRAINT apart EXCLUDE USING gist (b WITH ~=)"
            " WHERE (a IS NOT NULL) DEFERRABLE, EXCLUDE USING btree (lower(a) WITH =)"
        )
    ),
    "same_index_twice": Case(_table("a int", *["CREATE INDEX ON t.template (a)"] * 3)),
    "index_btree": Case(
        _table(
            "a int, b text, c int",
            'CREATE INDEX ON t.template (a DESC NULLS LAST, b COLLATE "C" text_pattern_ops) INCLUDE (c)',
            "CREATE INDEX ON t.template (a t.int4_down) WITH (fillfactor = 50, deduplicate_items = off)",
        )
    ),
    "index_hash": Case(
        _table(
            "a int, b text",
            "CREATE INDEX ON t.template USING hash (a)",
            "CREATE INDEX ON t.template USING hash (b) WITH (fillfactor = 30)",
        )
    ),
    "index_gin": Case(
        _table(
            "a int[], b jsonb, c tsvector",
            "CREATE INDEX ON t.template USING gin (a, b)",
            "CREATE INDEX ON t.template USING gin (b jsonb_path_ops) WITH (fastupdate = off)",
            "CREATE INDEX ON t.template USING gin (c) WITH (gin_pending_list_limit = 100)",
        )
    ),
    "index_gist": Case(
        _table(
            "a point, b tsvector, c inet",
            "CREATE INDEX ON t.template USING gist (a) INCLUDE (c)",
            "CREATE INDEX ON t.template USING gist (b tsvector_ops (siglen = 100)) WITH (buffering = on)",
        )
    ),
    "index_spgist": Case(
        _table(
            "a point, b text, c inet",
            "CREATE INDEX ON t.template USING spgist (a)",
            "CREATE INDEX ON t.template USING spgist (b)",
        )
    ),
    "index_brin": Case(
        _table(
            "a int, b inet, c timestamptz",
            "CREATE INDEX ON t.template USING brin (a, b, c)",
            "CREATE INDEX ON t.template USING brin (a int4_minmax_multi_ops (values_per_range = 16))"
            " WITH (pages_per_range = 4, autosummarize = on)",
        )
    ),
    "index_bloom": Case(
        _table("a int, b int", "CREATE INDEX ON t.template USING bloom (a, b) WITH (length = 64, col1 = 3)"),
        extension="bloom",
    ),
    "index_partial": Case(
        _table(
            "a int, b text",
            "CREATE INDEX ON t.template (a) WHERE b = 'x' AND a > 3",
            "CREATE UNIQUE INDEX ON t.template (b) WHERE a IS NULL",
        )
    ),
    "index_expression": Case(
        _table(
            "a int, b text, c jsonb",
            "CREATE INDEX ON t.template (lower(b), a, (a + 1), t.twice(a))",
            "CREATE INDEX ON t.template ((c ->> 'k')) WHERE (c ? 'k')",
            "CREATE INDEX ON t.template ((a % 7), (a % 8))",
            "CREATE INDEX ON t.template ((ROW (a, b) IS NULL))",
        )
    ),
    "index_named": Case(_table("a int", 'CREATE INDEX "An Index" ON t.template (a)')),
    "index_tablespace": Case(
        _table(
            "a int PRIMARY KEY USING INDEX TABLESPACE space1, b int", "CREATE INDEX ON t.template (b) TABLESPACE space2"
        )
    ),
    "index_statistics_target": Case(
        _table(
            "a int", "CREATE INDEX expr ON t.template ((a + 1))", "ALTER INDEX t.expr ALTER COLUMN 1 SET STATISTICS 77"
        )
    ),
    "index_clustered": Case(
        _table("a int, b int", "CREATE INDEX byb ON t.template (b)", "ALTER TABLE t.template CLUSTER ON byb")
    ),
    "replica_identity": Case(
        _table(
            "a int NOT NULL",
            "CREATE UNIQUE INDEX ident ON t.template (a)",
            "ALTER TABLE t.template REPLICA IDENTITY USING INDEX ident",
        )
    ),
    "replica_identity_full": Case(_table("a int", "ALTER TABLE t.template REPLICA IDENTITY FULL")),
    "storage_parameters": Case(
        _table(
            "a int, b text",
            "ALTER TABLE t.template SET (fillfactor = 70, autovacuum_enabled = off, parallel_workers"
            " = 3, toast_tuple_target = 500,"
            " autovacuum_vacuum_scale_factor = 0.25, vacuum_truncate = false)",
            "ALTER TABLE t.template SET (toast.autovacuum_enabled = off, toast.vacuum_index_cleanup = 'auto')",
        )
    ),
    "toast_parameters_only": Case(
        _table("b text", "ALTER TABLE t.template SET (toast.autovacuum_vacuum_threshold = 99)")
    ),
    "no_toast": Case(_table("a int, b varchar(10), c text", "ALTER TABLE t.template ALTER c SET STORAGE plain")),
    "toast_of_dropped_column": Case(_table("a int, b text", "ALTER TABLE t.template DROP b")),
    "column_storage": Case(
        _table(
            "a text, b text, c text, d jsonb",
            "ALTER TABLE t.template ALTER a SET STORAGE external, ALTER b SET STORAGE main, ALTER c SET STORAGE plain",
        )
    ),
    "compression": Case(_table("a text COMPRESSION pglz, b jsonb COMPRESSION pglz, c text COMPRESSION default")),
    "collations": Case(
        _table(
            'a text COLLATE "C", b text COLLATE "POSIX", c text COLLATE t.plain, d t.code COLLATE'
            ' t.plain, e text[] COLLATE "C"'
        )
    ),
    "comments": Case(
        _table(
            "a int CHECK (a > 0), b text, PRIMARY KEY (a), UNIQUE (b), c int NOT NULL",
            "CREATE INDEX lowered ON t.template (lower(b))",
            "CREATE STATISTICS t.dep (dependencies) ON a, b FROM t.template",
            "COMMENT ON TABLE t.template IS 'the table''s own'",
            "COMMENT ON COLUMN t.template.a IS 'a column'",
            "COMMENT ON COLUMN t.template.b IS 'another\ncolumn \\ 漢'",
            "COMMENT ON CONSTRAINT template_a_check ON t.template IS 'a check'",
            "COMMENT ON CONSTRAINT template_pkey ON t.template IS 'a key'",
            "COMMENT ON INDEX t.template_pkey IS 'the index of a key'",
            "COMMENT ON INDEX t.lowered IS 'an index'",
            "COMMENT ON STATISTICS t.dep IS 'statistics'",
            "COMMENT ON TYPE t.template IS 'a row type'",
        )
    ),
    "comment_not_null": Case(
        _table("a int NOT NULL", "COMMENT ON CONSTRAINT template_a_not_null ON t.template IS 'never'"), since=18
    ),
    "comment_sequences": Case(
        _table(
            "a serial, b int GENERATED ALWAYS AS IDENTITY",
            "COMMENT ON SEQUENCE t.template_a_seq IS 'of a serial'",
            "COMMENT ON SEQUENCE t.template_b_seq IS 'of an identity'",
        )
    ),
    "extended_statistics": Case(
        _table(
            "a int, b int, c text",
            "CREATE STATISTICS t.one ON a, b FROM t.template",
            "CREATE STATISTICS t.two (mcv, ndistinct) ON b, c FROM t.template",
            "CREATE STATISTICS t.three ON (a + b), lower(c), a FROM t.template",
            "CREATE STATISTICS t.four ON (t.twice(a)) FROM t.template",
            "ALTER STATISTICS t.two SET STATISTICS 33",
        )
    ),
    "attribute_options": Case(
        _table(
            "a int, b int",
            "ALTER TABLE t.template ALTER a SET (n_distinct = -0.5), ALTER b SET (n_distinct_inherited = 7)",
        )
    ),
    "statistics_target": Case(
        _table("a int, b int", "ALTER TABLE t.template ALTER a SET STATISTICS 500, ALTER b SET STATISTICS 0")
    ),
    "identity": Case(
        _table(
            "a int GENERATED ALWAYS AS IDENTITY, b bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY"
            " KEY, c smallint GENERATED ALWAYS AS IDENTITY"
        )
    ),
    "identity_options": Case(
        _table(
            "a bigint GENERATED ALWAYS AS IDENTITY (START 100 INCREMENT -5 MINVALUE -1000 MAXVALUE 200 CACHE 20 CYCLE),"
            " b int GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME t.its_own START 9)",
            "INSERT INTO t.template DEFAULT VALUES",
        )
    ),
    "serials": Case(_table("a serial, b bigserial, c smallserial, d text", "INSERT INTO t.template DEFAULT VALUES")),
    "serial_options": Case(
        _table(
            "a serial",
            "ALTER SEQUENCE t.template_a_seq INCREMENT 7 MINVALUE 3 START 10 MAXVALUE 1000 CACHE 4 CYCLE RESTART 10",
            "ALTER SEQUENCE t.template_a_seq AS smallint",
        )
    ),
    "serial_by_hand": Case(
        'CREATE SEQUENCE t."My Seq\'s"; '
        + _table(
            """a text DEFAULT 'x' || nextval('t."My Seq''s"'), b int DEFAULT 3, c serial""",
            'ALTER SEQUENCE t."My Seq\'s" OWNED BY t.template.a',
            "ALTER TABLE t.template ALTER b SET DEFAULT nextval('t.template_c_seq')",
        )
    ),
    "serial_odd_column": Case(_table('"Id\'s \\ ""x""" serial PRIMARY KEY, "été" bigserial')),
    "owned_sequence_without_default": Case(
        _table(
            "a int, b serial",
            "CREATE SEQUENCE t.loose OWNED BY t.template.a",
            "ALTER TABLE t.template ALTER b DROP DEFAULT",
        )
    ),
    "dropped_columns": Case(
        _table(
            "gone1 int, a int CHECK (a > 0), gone2 text, b text NOT NULL DEFAULT 'x', gone3 serial, c"
            " int, PRIMARY KEY (b, c)",
            "CREATE INDEX ON t.template (c, lower(b)) WHERE a > 4",
            "CREATE STATISTICS t.dep ON a, c FROM t.template",
            "COMMENT ON COLUMN t.template.c IS 'number six'",
            "ALTER TABLE t.template DROP gone1, DROP gone2, DROP gone3",
        )
    ),
    "dropped_all_columns": Case(_table("a int, b text", "ALTER TABLE t.template DROP a, DROP b")),
    "added_column": Case(
        _table(
            "a int", "INSERT INTO t.template VALUES (1)", "ALTER TABLE t.template ADD b text NOT NULL DEFAULT 'missing'"
        )
    ),
    "renamed": Case(
        "CREATE TABLE t.other (a int PRIMARY KEY, b serial, CHECK (a > 1)); ALTER TABLE t.other"
        " RENAME a TO z; ALTER TABLE t.other RENAME TO template"
    ),
    "privileges": Case(
        _table(
            "a int, b int",
            "GRANT SELECT, INSERT ON t.template TO PUBLIC",
            "GRANT UPDATE (a) ON t.template TO PUBLIC",
            "GRANT SELECT ON t.template TO CURRENT_USER WITH GRANT OPTION",
        )
    ),
    "with_rows": Case(
        _table(
            "a int PRIMARY KEY, b text",
            "CREATE INDEX ON t.template USING gin (to_tsvector('english', b))",
            "INSERT INTO t.template SELECT n, repeat('x', 3000) FROM generate_series(1, 200) n",
            "ANALYZE t.template",
        )
    ),
    "template_in_tablespace": Case("CREATE TABLE t.template (a int PRIMARY KEY, b text) TABLESPACE space1"),
    "temporary": Case(
        "CREATE TEMPORARY TABLE template (id serial PRIMARY KEY, t text DEFAULT t.label()) ON COMMIT PRESERVE ROWS"
    ),
    "typed": Case("CREATE TABLE t.template OF t.pair (a NOT NULL DEFAULT 4, PRIMARY KEY (a))"),
    "column_named_as_the_system": Case(
        _table('"select" int, "CamelCase" int UNIQUE, "with space" text, "é" int, "' + "x" * 63 + '" serial')
    ),
    "long_constraint_names": Case(
        _table(f"a int CONSTRAINT {'c' * 63} CHECK (a > 0), b int CONSTRAINT {'d' * 63} UNIQUE")
    ),
    "long_columns": Case(
        _table(
            ", ".join(f"{'c' * 58}{n:05d} int NOT NULL UNIQUE" for n in range(8)),
            "CREATE INDEX ON t.template (" + ", ".join(f"{'c' * 58}{n:05d}" for n in range(8)) + ")",
        )
    ),
}


def make(conn: psycopg.Connection[tuple[Any, ...]], version_num: int, name: str) -> str | None:
    """Make the named case's template, and return it as SQL; None when this server has not what it takes."""
    case = CASES[name]
    if version_num < case.since * 10000:
        return None
    if (
        case.extension
        and not conn.execute("SELECT 1 FROM pg_extension WHERE extname = %s", [case.extension]).fetchone()
    ):
        return None
    conn.execute(WORLD)
    conn.execute(case.script.encode())
    return "pg_temp.template" if name == "temporary" else TEMPLATE


@dataclass(frozen=True)
class _Type:
    name: str
    defaults: tuple[str, ...]
    #: access methods that have a default operator class for it
    methods: tuple[str, ...] = ("btree", "hash")


_TYPES = (
    _Type("int", ("1", "t.twice(3)"), ("btree", "hash", "brin")),
    _Type("bigint", ("1",), ("btree", "hash", "brin")),
    _Type("smallint", ("1",), ("btree", "hash", "brin")),
    _Type("text", ("'x'", "t.label()", "current_user"), ("btree", "hash", "spgist", "brin")),
    _Type("varchar(12)", ("'x'",), ("btree", "hash")),
    _Type("numeric(8, 2)", ("1.5",)),
    _Type("boolean", ("true",)),
    _Type("timestamptz", ("now()",), ("btree", "brin")),
    _Type("uuid", ("gen_random_uuid()",)),
    _Type("jsonb", ("'{}'",), ("btree", "gin")),
    _Type("int[]", ("'{1}'",), ("btree", "gin")),
    _Type("tsvector", ("to_tsvector('english', 'x')",), ("gin", "gist")),
    _Type("point", ("'(1,1)'",), ("gist", "spgist")),
    _Type("int4range", ("'[1,2)'",), ("btree", "gist", "spgist")),
    _Type("inet", ("'::1'",), ("btree", "spgist", "brin")),
    _Type("bytea", ("'x'",)),
    _Type("t.mood", ("'ok'",)),
    _Type("t.pair", ("ROW (1, 'x')::t.pair",), ("btree",)),
    _Type("t.positive", ("1",)),
    _Type("t.code", ("'x'",)),
    _Type("t.span", (), ("btree", "gist")),
    _Type("t.mood[]", (), ("btree", "gin")),
)
_SERIAL = {"int": "serial", "bigint": "bigserial", "smallint": "smallserial"}
_COLUMN_NAMES = ("a", "b", "Camel Case", "été", "it's", "c" * 63, "d", "漢字" * 10, "e", "pkey")


@st.composite
def scripts(draw: st.DrawFn, major: int) -> str:
    """A script that makes a template with a bit of everything; now and then one that core does not take."""
    names = draw(st.lists(st.sampled_from(_COLUMN_NAMES), unique=True, min_size=0, max_size=6))
    types = [draw(st.sampled_from(_TYPES)) for _ in names]
    columns: list[str] = []
    after: list[str] = []
    dropped: list[str] = []
    serial = False
    for name, type_ in zip(names, types, strict=True):
        quoted = _quoted(name)
        if draw(st.integers(0, 4)) == 0:
            dropped.append(f"gone{len(dropped)}")
            columns.append(f"{dropped[-1]} {draw(st.sampled_from(_TYPES)).name}")
        kind = draw(st.sampled_from(("plain", "plain", "default", "default", "generated", "identity", "serial")))
        definition = f"{quoted} {type_.name}"
        if kind == "default" and type_.defaults:
            definition += f" DEFAULT {draw(st.sampled_from(type_.defaults))}"
        elif kind == "generated":
            how = "VIRTUAL" if major >= 18 and not type_.name.startswith("t.") and draw(st.booleans()) else "STORED"
            definition += f" GENERATED ALWAYS AS (NULL::{type_.name}) {how}"
        elif kind == "identity" and type_.name in _SERIAL:
            always = draw(st.sampled_from(("ALWAYS", "BY DEFAULT")))
            settings = draw(st.sampled_from(("", " (START 5 INCREMENT 3 CACHE 7)", " (INCREMENT -1)")))
            definition += f" GENERATED {always} AS IDENTITY{settings}"
        elif kind == "serial" and type_.name in _SERIAL:
            definition = f"{quoted} {_SERIAL[type_.name]}"
            serial = True
        if type_.name == "text" and draw(st.booleans()):
            definition += " COLLATE " + draw(st.sampled_from(('"C"', '"POSIX"', "t.plain")))
        if type_.name in ("text", "jsonb", "bytea"):
            if draw(st.integers(0, 2)) == 0 and "VIRTUAL" not in definition:
                after.append(f"ALTER TABLE t.template ALTER {quoted} SET COMPRESSION pglz")
            if draw(st.integers(0, 2)) == 0:
                storage = draw(st.sampled_from(("plain", "main", "external", "extended")))
                after.append(f"ALTER TABLE t.template ALTER {quoted} SET STORAGE {storage}")
        if draw(st.integers(0, 2)) == 0 and kind != "identity":
            definition += " NOT NULL"
        if draw(st.integers(0, 5)) == 0:
            definition += f" CHECK ({quoted} IS NOT NULL)"
        if draw(st.integers(0, 5)) == 0:
            after.append(f"ALTER TABLE t.template ALTER {quoted} SET STATISTICS {draw(st.integers(0, 1000))}")
        if draw(st.integers(0, 5)) == 0:
            after.append(f"ALTER TABLE t.template ALTER {quoted} SET (n_distinct = -0.1)")
        if draw(st.integers(0, 3)) == 0:
            after.append(f"COMMENT ON COLUMN t.template.{quoted} IS {_literal(draw(st.text(_PRINTABLE, max_size=20)))}")
        columns.append(definition)
    body = [f"CREATE TABLE t.template ({', '.join(columns)})"]
    if serial and draw(st.booleans()):
        body.append("INSERT INTO t.template DEFAULT VALUES ON CONFLICT DO NOTHING")
        body.append("TRUNCATE t.template")
    for _ in range(draw(st.integers(0, 4)) if names else 0):
        body.append(_index(draw, names, types, columns))
    if len(names) >= 2 and draw(st.integers(0, 2)) == 0:
        chosen = ", ".join(map(_quoted, names[:2]))
        extra = ", (1 + 1)" if draw(st.booleans()) else ""
        body.append(f"CREATE STATISTICS t.stat ON {chosen}{extra} FROM t.template")
        if draw(st.booleans()):
            body.append("COMMENT ON STATISTICS t.stat IS 'statistics'")
    body += after
    body += [f"ALTER TABLE t.template DROP {name}" for name in dropped]
    options = draw(
        st.lists(
            st.sampled_from(
                (
                    "fillfactor = 60",
                    "autovacuum_enabled = off",
                    "parallel_workers = 2",
                    "toast_tuple_target = 300",
                    "toast.autovacuum_enabled = off",
                    "toast.vacuum_truncate = off",
                )
            ),
            unique=True,
            max_size=3,
        )
    )
    if options:
        body.append(f"ALTER TABLE t.template SET ({', '.join(options)})")
    if draw(st.booleans()):
        body.append(f"COMMENT ON TABLE t.template IS {_literal(draw(st.text(_PRINTABLE, max_size=30)))}")
    body += _parents(draw, names, columns)
    body += _rules(draw, names)
    return ";\n".join(body)


def _parents(draw: st.DrawFn, names: list[str], columns: list[str]) -> list[str]:
    """Parents with some of the columns, in another order; of generated ones a parent's would have to be, too."""
    made = [f"DROP TABLE IF EXISTS t.parent_{n} CASCADE" for n in (0, 1)]
    inheritable = [
        re.sub(r" (DEFAULT|NOT NULL|CHECK|GENERATED|COLLATE) .*| NOT NULL$", "", column)
        + "".join(re.findall(r" COLLATE \S+", column))
        for column in columns
        if "GENERATED ALWAYS AS (" not in column and "serial" not in column and column.startswith('"')
    ]
    for n in range(draw(st.sampled_from((0, 0, 1, 2)))):
        chosen = draw(st.lists(st.sampled_from(inheritable), unique=True)) if inheritable else []
        made += [
            f"CREATE TABLE t.parent_{n} ({', '.join(chosen)})",
            f"ALTER TABLE t.parent_{n} OWNER TO maker",
            f"ALTER TABLE t.template INHERIT t.parent_{n}",
        ]
    return made


def _rules(draw: st.DrawFn, names: list[str]) -> list[str]:
    name = _quoted(draw(st.sampled_from(names))) if names else "ctid"
    row = f"NEW.{name}" if names else "NEW.*"
    rules = (
        f"CREATE RULE r0 AS ON INSERT TO t.template DO ALSO SELECT count({row}) FROM t.template WHERE"
        f" template.{name} IS NOT NULL",
        "CREATE RULE r1 AS ON DELETE TO t.template WHERE (OLD.* IS NOT NULL) DO INSTEAD NOTHING",
        f"CREATE RULE r2 AS ON UPDATE TO t.template DO ALSO DELETE FROM t.template WHERE template.{name} IS NULL",
        f"CREATE RULE r3 AS ON INSERT TO t.template DO ALSO (NOTIFY told; SELECT ({row} IS NULL) AS one)",
        "ALTER TABLE t.template DISABLE RULE r1",
        "COMMENT ON RULE r2 ON t.template IS 'a rule'",
    )
    chosen = draw(st.sets(st.integers(0, 5)))
    if 4 in chosen:
        chosen.add(1)
    if 5 in chosen:
        chosen.add(2)
    return [rules[n] for n in sorted(chosen)] if draw(st.booleans()) else []


def _index(draw: st.DrawFn, names: list[str], types: list[_Type], columns: list[str]) -> str:
    position = draw(st.integers(0, len(names) - 1))
    name, type_ = _quoted(names[position]), types[position]
    virtual = any(definition.startswith(name + " ") and "VIRTUAL" in definition for definition in columns)
    kind = draw(st.sampled_from(("index", "index", "unique", "primary", "expression", "partial", "exclude")))
    if virtual:
        kind = "expression"
    method = draw(st.sampled_from(type_.methods))
    other = _quoted(draw(st.sampled_from(names)))
    if kind == "unique" and "btree" in type_.methods:
        nulls = draw(st.sampled_from(("", " NULLS NOT DISTINCT")))
        deferred = draw(st.sampled_from(("", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED")))
        return f"ALTER TABLE t.template ADD UNIQUE{nulls} ({name}){deferred}"
    if kind == "primary" and "btree" in type_.methods:
        # a second one is an error: then there is no primary key but what was there
        return (
            "DO $$ BEGIN ALTER TABLE t.template ADD PRIMARY KEY (" + name + ");"
            " EXCEPTION WHEN invalid_table_definition THEN END $$"
        )
    if kind == "expression":
        return f"CREATE INDEX ON t.template (({name} IS NULL), ({other} IS NULL))" if not virtual else "SELECT 1"
    if kind == "partial":
        return f"CREATE INDEX ON t.template USING {method} ({name}) WHERE {name} IS NOT NULL"
    if kind == "exclude" and "hash" in type_.methods:
        return f"ALTER TABLE t.template ADD EXCLUDE USING hash ({name} WITH =)"
    options = " WITH (fillfactor = 40)" if method in ("btree", "hash", "gist", "spgist") and draw(st.booleans()) else ""
    return f"CREATE INDEX ON t.template USING {method} ({name}){options}"


_PRINTABLE = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\0")

#: name formats with room for one digit
FORMATS = (
    None, "t%d", "T'%d\"x", "with space %d", "%d", "tab_%09d", "%x", "été_%03o", "%X%%",
    "n" * 62 + "%d", "é" * 31 + "%d", "漢" * 20 + "ab%d", "x" * 55 + "%08x", "%d" + "y" * 61, "_" * 62 + "%d",
)  # fmt: skip


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
