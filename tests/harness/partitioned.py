"""Partitioned templates to make trees of tables after: one for each feature by name, and what all of them refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgbillion.common.connection import Connection

from . import oracle, templates
from .compare import Batch

WORLD = """
    CREATE TABLE t.other (id int PRIMARY KEY, code text UNIQUE, a int, b int, UNIQUE (a, b));
    CREATE TABLE t.split (id int PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE t.split_0 PARTITION OF t.split FOR VALUES FROM (MINVALUE) TO (100);
    CREATE TABLE t.split_1 PARTITION OF t.split DEFAULT PARTITION BY LIST (id);
    CREATE TABLE t.split_1_rest PARTITION OF t.split_1 DEFAULT;
    CREATE TABLE t.log (what text);
    CREATE FUNCTION t.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
"""
# the partition made first is attached last, and its columns are in another order, one of them gone
LEVELS = """
    CREATE TABLE template (id int NOT NULL, at int NOT NULL, org int DEFAULT 1, code text) PARTITION BY RANGE (at);
    CREATE TABLE template_1 (code text, gone int, at int NOT NULL, org int DEFAULT 4, id int NOT NULL);
    ALTER TABLE template_1 DROP gone; CREATE TABLE template_3 PARTITION OF template DEFAULT;
    CREATE TABLE template_2 PARTITION OF template FOR VALUES FROM (10) TO (20) PARTITION BY LIST (org);
    CREATE TABLE odd PARTITION OF template_2 FOR VALUES IN (1, 2);
    CREATE TABLE template_2_rest PARTITION OF template_2 DEFAULT;
    ALTER TABLE template ATTACH PARTITION template_1 FOR VALUES FROM (MINVALUE) TO (10);
"""


@dataclass(frozen=True)
class Case:
    """A script that makes t.template, and statements about it ("") and its partitions, by endings of their names."""

    script: str
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since: int = 15

    def batch(self, first: int, count: int, role: str | None = None) -> Batch:
        others = {ending: said for ending, said in self.said.items() if ending}
        compared = frozenset({first, first + 2, first + count // 2, first + count - 1}) if count > 9 else None
        return Batch("x%d", first, count, role=role, parts=self.said.get("", ()), partitions=others, compared=compared)


CASES: Mapping[str, Case] = {
    "range": Case(
        "CREATE TABLE template (id int, at date NOT NULL, note text DEFAULT 'x') PARTITION BY RANGE (at, id);"
        "CREATE TABLE template_2 PARTITION OF template FOR VALUES FROM ('2025-01-01', 0) TO ('2026-01-01', 5);"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES FROM (MINVALUE, MINVALUE) TO ('2025-01-01', 0);"
        "CREATE TABLE rest PARTITION OF template DEFAULT"
    ),
    "list": Case(
        "CREATE TABLE template (m mood, note text) PARTITION BY LIST (m);"
        "CREATE TABLE template_sad PARTITION OF template FOR VALUES IN ('sad', NULL);"
        "CREATE TABLE \"It's fine\" PARTITION OF template FOR VALUES IN ('ok') PARTITION BY LIST (note);"
        "CREATE TABLE template_ok PARTITION OF \"It's fine\" FOR VALUES IN ('it''s', '\\', '{n} $1');"
        "CREATE TABLE template_rest PARTITION OF template DEFAULT PARTITION BY LIST ((note IS NULL));"
        "CREATE TABLE template_null PARTITION OF template_rest FOR VALUES IN (true)"
    ),
    "hash": Case(
        "CREATE TABLE template (id int, code text) PARTITION BY HASH (id, code COLLATE plain);"
        "CREATE TABLE template_0 PARTITION OF template FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES WITH (MODULUS 4, REMAINDER 1)"
    ),
    "key_of_expressions": Case(
        "CREATE TABLE template (id int, code text, at date, p positive) PARTITION BY RANGE"
        " (twice(id) int4_down, lower(code) COLLATE plain text_pattern_ops, (at + 1), p);"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES FROM (1, 'it''s', '2025-01-01', MINVALUE)"
        " TO (7, 'x', MAXVALUE, MAXVALUE)"
    ),
    "no_partitions": Case(
        "CREATE TABLE template (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
        {"": ("CREATE TRIGGER g AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",)},
    ),
    "keys": Case(
        LEVELS + "ALTER TABLE template_1 ADD CONSTRAINT own UNIQUE (at, id), ADD UNIQUE (id) DEFERRABLE;"
        "ALTER TABLE template_2 ADD CHECK (id > 0), ADD PRIMARY KEY (id, at, org), ALTER code SET NOT NULL;"
        "ALTER TABLE template ADD UNIQUE (id, at, org) DEFERRABLE, ADD UNIQUE NULLS NOT DISTINCT (at, org) INCLUDE"
        " (code), ADD CONSTRAINT checked CHECK (id > at OR code <> ''), ADD CONSTRAINT here CHECK (id < 9) NOT VALID;"
        "ALTER TABLE template_3 ALTER id SET DEFAULT 3, ALTER org DROP DEFAULT"
    ),
    "indexes": Case(
        LEVELS + "CREATE INDEX on_parts ON template_1 (code); CREATE INDEX ON template_1 (code); CREATE INDEX ON"
        " template (code); CREATE INDEX ON template (twice(id), lower(code) COLLATE \"C\") WHERE org > 0;"
        "CREATE INDEX ON template USING hash (code); CREATE INDEX ON template_2 (org, id DESC);"
        "CREATE INDEX ON odd (code) WITH (fillfactor = 50); COMMENT ON INDEX on_parts IS 'an index';"
        "CREATE INDEX whole ON ONLY template_2 (id); CREATE INDEX half ON odd (id); CREATE INDEX rest ON"
        " template_2_rest (id); ALTER INDEX whole ATTACH PARTITION half; ALTER INDEX whole ATTACH PARTITION rest"
    ),
    "exclusion": Case(
        "CREATE TABLE template (id int, r int4range, EXCLUDE USING gist (id WITH =, r WITH &&))"
        " PARTITION BY LIST (id); CREATE TABLE template_1 PARTITION OF template FOR VALUES IN (1)",
        since=17,
    ),
    # an index of the root takes the name that one of a partition would have
    "numbered_names": Case(
        "CREATE TABLE template (id int, \"1_id\" int) PARTITION BY LIST (id);"
        "CREATE INDEX ON template (\"1_id\"); CREATE INDEX ON template (id); CREATE INDEX ON template (id, id);"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES IN (1); CREATE INDEX ON template_1 (id);"
        "CREATE TABLE template_1_id_key PARTITION OF template DEFAULT; CREATE INDEX ON template (id)"
    ),
    "serial": Case(
        "CREATE TABLE template (id serial, big bigserial, at int, own int) PARTITION BY LIST (at);"
        "ALTER SEQUENCE template_id_seq INCREMENT 5 CACHE 3 CYCLE;"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES IN (1);"
        "CREATE TABLE template_2 (at int, own serial, big bigint NOT NULL DEFAULT nextval('shared'), id int NOT NULL"
        " DEFAULT nextval('template_big_seq') + 1); ALTER TABLE template ATTACH PARTITION template_2 DEFAULT"
    ),
    # the one that calls the sequence first does not own it
    "serial_of_partitions": Case(
        "CREATE TABLE template (id int, at int) PARTITION BY LIST (at);"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES IN (1);"
        "CREATE TABLE template_2 PARTITION OF template FOR VALUES IN (2); CREATE SEQUENCE q OWNED BY template_2.id;"
        "ALTER TABLE template_2 ALTER id SET DEFAULT nextval('q'); ALTER TABLE template_1 ALTER id SET DEFAULT"
        " nextval('q')"
    ),
    "identity": Case(
        "CREATE TABLE template (id int GENERATED BY DEFAULT AS IDENTITY (START 7 INCREMENT 2), at int, b int GENERATED"
        " ALWAYS AS (at * 2) STORED) PARTITION BY LIST (at);"
        "CREATE TABLE template_1 PARTITION OF template FOR VALUES IN (1);"
        "CREATE TABLE template_2 (b int GENERATED ALWAYS AS (at * 2) STORED, at int, id int NOT NULL);"
        "ALTER TABLE template ATTACH PARTITION template_2 FOR VALUES IN (2)"
    ),
    "foreign_keys": Case(
        LEVELS + "ALTER TABLE template ADD COLUMN up int",
        {
            "": (
                "ALTER TABLE {table} ADD CONSTRAINT plain FOREIGN KEY (org) REFERENCES t.other ON DELETE CASCADE",
                "ALTER TABLE {table} ADD CONSTRAINT pair FOREIGN KEY (id, at) REFERENCES t.other (a, b) MATCH FULL"
                " ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED",
                "ALTER TABLE {table} ADD CONSTRAINT parts FOREIGN KEY (at) REFERENCES t.split",
                "COMMENT ON CONSTRAINT plain ON {table} IS 'of all'",
            ),
            "_1": (
                "ALTER TABLE {table} ADD CONSTRAINT own FOREIGN KEY (code) REFERENCES t.other (code)",
                "COMMENT ON CONSTRAINT own ON {table} IS 'of a partition'",
            ),
            "_2": ("ALTER TABLE {table} ADD CONSTRAINT own FOREIGN KEY (up) REFERENCES t.split",),
            "later": ("COMMENT ON CONSTRAINT plain ON {_2_rest} IS 'inherited'",),
        },
    ),
    "foreign_keys_to_itself": Case(
        LEVELS + "ALTER TABLE template ADD COLUMN up int, ADD PRIMARY KEY (id, at, org), ADD UNIQUE (at, org)",
        {"": ("ALTER TABLE {table} ADD CONSTRAINT tree FOREIGN KEY (up, org) REFERENCES {table} (at, org)",)},
    ),
    # a partition's own keys become those that it has from its parent
    "foreign_keys_alike": Case(
        LEVELS,
        {
            "": ("ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other",),
            "_1": ("ALTER TABLE {table} ADD CONSTRAINT own FOREIGN KEY (org) REFERENCES t.other",),
            "_2": ("ALTER TABLE {table} ADD CONSTRAINT fk2 FOREIGN KEY (at) REFERENCES t.split",),
            "_odd": ("ALTER TABLE {table} ADD CONSTRAINT own FOREIGN KEY (at) REFERENCES t.split",),
        },
    ),
    "foreign_keys_of_long_names": Case(
        LEVELS + "ALTER TABLE template ADD up int, ADD UNIQUE (at, org)",
        {
            "": tuple(
                f"ALTER TABLE {{table}} ADD CONSTRAINT {'k' * length} FOREIGN KEY (up, org) REFERENCES {{table}}"
                " (at, org)"
                for length in (63, 62)
            )
        },
    ),
    # also to one that comes after it
    "foreign_keys_of_partitions": Case(
        LEVELS + "ALTER TABLE template ADD PRIMARY KEY (id, at, org)",
        {
            "_1": (
                "ALTER TABLE {table} ADD CONSTRAINT up FOREIGN KEY (id, at, org) REFERENCES {root}",
                "ALTER TABLE {table} ADD CONSTRAINT own FOREIGN KEY (id, at, org) REFERENCES {table}",
                "ALTER TABLE {table} ADD CONSTRAINT aside FOREIGN KEY (id, at, org) REFERENCES {_3}",
            ),
            "_2": ("ALTER TABLE {table} ADD CONSTRAINT aside FOREIGN KEY (id, at, org) REFERENCES {_1}",),
        },
    ),
    "triggers": Case(
        LEVELS,
        {
            "": (
                "CREATE TRIGGER a AFTER INSERT OR UPDATE ON {table} FOR EACH ROW WHEN (NEW.id > NEW.at)"
                " EXECUTE FUNCTION t.noted('it''s', '\\x')",
                "CREATE TRIGGER b BEFORE UPDATE OF code ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",
                "CREATE TRIGGER s AFTER UPDATE ON {table} REFERENCING NEW TABLE AS now EXECUTE FUNCTION t.noted()",
                "CREATE CONSTRAINT TRIGGER k AFTER DELETE ON {table} DEFERRABLE FOR EACH ROW EXECUTE FUNCTION"
                " t.noted()",
                "CREATE TRIGGER off AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",
                "COMMENT ON TRIGGER a ON {table} IS 'of all'",
            ),
            "_1": (
                "CREATE TRIGGER own BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",
                "ALTER TABLE {table} ENABLE ALWAYS TRIGGER own; COMMENT ON TRIGGER own ON {table} IS 'own'",
            ),
            "_2": ("CREATE TRIGGER own AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",),
            "_odd": ("CREATE TRIGGER s AFTER DELETE ON {table} EXECUTE FUNCTION t.noted()",),
            "later": (
                "ALTER TABLE ONLY {_1} DISABLE TRIGGER a; ALTER TABLE ONLY {_2} ENABLE REPLICA TRIGGER b",
                "ALTER TABLE ONLY {_odd} DISABLE TRIGGER own; ALTER TABLE ONLY {root} DISABLE TRIGGER off",
                "COMMENT ON TRIGGER a ON {_2_rest} IS 'inherited'",
            ),
        },
    ),
    "rules_and_policies": Case(
        LEVELS,
        {
            "": (
                "CREATE RULE r AS ON INSERT TO {table} WHERE NEW.id > 5 DO ALSO DELETE FROM {_odd} AS odd"
                " WHERE odd.id = NEW.id",
                "CREATE POLICY p ON {table} TO reader USING (org IN (SELECT other.id FROM t.other))",
                "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            ),
            "_1": (
                "CREATE RULE r AS ON DELETE TO {table} DO INSTEAD NOTHING",
                "COMMENT ON RULE r ON {table} IS 'of a partition'",
                "CREATE POLICY p ON {table} AS RESTRICTIVE FOR INSERT WITH CHECK (org > 0)",
                "CREATE POLICY q ON {table} USING (id IN (SELECT x.id FROM {root} x))",
            ),
            "_2": ("ALTER TABLE {table} FORCE ROW LEVEL SECURITY", "CREATE POLICY q ON {table} USING (code = 'x')"),
        },
    ),
    "storage": Case(
        "CREATE TABLE template (id int, note text, more text COMPRESSION pglz) PARTITION BY LIST (id);"
        "ALTER TABLE template ALTER note SET STORAGE EXTERNAL;"
        "CREATE UNLOGGED TABLE template_1 PARTITION OF template FOR VALUES IN (1) WITH (fillfactor = 50,"
        " autovacuum_enabled = off, toast.autovacuum_enabled = off, toast_tuple_target = 300);"
        "CREATE TABLE template_2 PARTITION OF template (PRIMARY KEY (id)) FOR VALUES IN (2) WITH (fillfactor = 60);"
        "ALTER TABLE template_2 ALTER note SET STORAGE MAIN, ALTER more SET (n_distinct = 5);"
        "CREATE UNLOGGED TABLE template_3 (id serial, note text, more text);"
        "ALTER TABLE template ATTACH PARTITION template_3 DEFAULT"
    ),
    "comments_and_statistics": Case(
        LEVELS + "CREATE STATISTICS s1 ON id, at FROM template; CREATE STATISTICS s2 (mcv) ON (id + at), code FROM"
        " template_1; COMMENT ON TABLE template IS 'it''s {whole}'; COMMENT ON TABLE template_2 IS 'a part';"
        "COMMENT ON TABLE odd IS 'odd'; COMMENT ON COLUMN template_1.code IS 'a column';"
        "ALTER TABLE template ADD CONSTRAINT c CHECK (id > 0); COMMENT ON CONSTRAINT c ON template_1 IS 'a check';"
        "COMMENT ON STATISTICS s2 IS 'statistics'; ALTER STATISTICS s1 SET STATISTICS 40"
    ),
    "other_schemas": Case(
        "CREATE SCHEMA \"El's\"; CREATE TABLE template (id serial, at int) PARTITION BY LIST (at);"
        "CREATE TABLE \"El's\".template_1 PARTITION OF template FOR VALUES IN (1) PARTITION BY LIST (id);"
        "CREATE TABLE \"El's\".template PARTITION OF \"El's\".template_1 FOR VALUES IN (1);"
        "CREATE TABLE \"El's\".\"Template_2\" PARTITION OF template FOR VALUES IN (2); CREATE INDEX ON template (id);"
        "CREATE TABLE \"El's\".\"template%d\" PARTITION OF template FOR VALUES IN (3)"
    ),
}  # fmt: skip


def make(conn: Connection, case: Case) -> None:
    """Create t.template, and what it refers to."""
    conn.execute(templates.WORLD)
    conn.execute(WORLD)
    conn.execute("SET search_path = t")
    conn.execute(case.script.encode())
    conn.execute("RESET search_path")
    if case.said:
        oracle.say_of_all(conn, case.said, templates.TEMPLATE)
