"""Generated schemas: commands that make anything a schema can have, in any mixture, under names of any kind.

What PostgreSQL refuses is left out by whoever runs them, so that a command need not be right in every schema. They are
run in the schema's own search_path, beside the schema ``outside`` of harness/schemas.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from psycopg import sql

# what a name can have in it
_ODD = ("", "", "", "", " of", '"', "'", ".", "é", "\\", "$", "A", "%", "{", "(", ":", " -- ", "/*", "select ")

# types, with a default and a condition for a column of them
_TYPES: Sequence[tuple[str, str, str]] = (
    ("integer", "7", "{} > 0"),
    ("integer", "outside.twice(4)", "{} BETWEEN -5 AND 500 OR {} IS NULL"),
    ("smallint", "(- 3)", "{} IN (1, 2, 3)"),
    ("bigint", "1 + 2 * 3", "{} % 2 = 0"),
    ("numeric(12,3)", "0.10", "{} >= 0.5"),
    ("real", "1.5e-30", "{} <> 'NaN'"),
    ("double precision", "0.1 + 1e-17", "{} < 'Infinity'"),
    ("boolean", "true", "{} IS NOT TRUE"),
    ("text", "'it''s \\ \"x\"'", "{} <> 'it''s' AND length({}) < 99"),
    ('text COLLATE "C"', "current_user", "{} > 'a' COLLATE \"POSIX\""),
    ("varchar(9)", "upper('x')", "{} LIKE 'a\\_%'"),
    ("char(3)", "'a'", "{} ~ '^[a-z]+$'"),
    ('"char"', "'x'", "{} <> 'y'"),
    ("name", "'n'", "{} IS NOT NULL"),
    ("bytea", "'\\x0001ff'", "octet_length({}) < 10"),
    ("date", "'2020-02-29'", "{} > '2001-02-03'"),
    ("timestamptz(3)", "now()", "{} > '2000-01-01 00:00:00+00'"),
    ("timestamp", "'infinity'", "extract(year FROM {}) > 2000"),
    ("interval day to second(2)", "'1 day 02:03:04.5'", "{} < '1 year'"),
    ("time", "'12:34'", "{} <> '00:00'"),
    ("uuid", "gen_random_uuid()", "{} <> '00000000-0000-0000-0000-000000000000'"),
    ("inet", "'10.0.0.1/8'", "{} << '10.0.0.0/8'"),
    ("jsonb", "'{\"a\": [1, 2]}'", "{} ? 'a' AND {} @> '{\"b\": 1}'"),
    ("xml", "'<a/>'", "{} IS DOCUMENT"),
    ("point", "'(1,2)'", "{} <@ box '((0,0),(9,9))'"),
    ("bit varying(7)", "B'101'", "{} <> B'1'"),
    ("tsvector", "to_tsvector('simple', 'a b')", "{} @@ 'a'::tsquery"),
    ("int4range", "'[1,5)'", "NOT isempty({})"),
    ("nummultirange", "'{[1,2),[3,4)}'", "lower({}) > 0"),
    ("integer[]", "'{1,2}'", "array_length({}, 1) < 5 AND 3 <> ALL ({})"),
    ("text[][]", "ARRAY['a','it''s']", "{}[1] = 'a'"),
    ("outside.size", "'large'", "{} IN ('small', 'large')"),
    ("outside.country", "ROW('de', 'x')", "({}).name <> 'y'"),
    ("regclass", "'pg_class'", "{} <> 'pg_type'::regclass"),
    ("regtype", "'integer'", "{} IS NOT NULL"),
    ("oid", "4711", "{} > 0"),
)


@dataclass
class _Table:
    name: str
    columns: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    keys: list[tuple[str, ...]] = field(default_factory=list)
    partitioned: bool = False
    parts: list[str] = field(default_factory=list)
    is_view: bool = False

    def quoted(self, *columns: str) -> str:
        return ", ".join(_quote(column) for column in columns)


def _quote(name: str) -> str:
    return sql.Identifier(name).as_string(None)


def _on(condition: str, value: str) -> str:
    return condition.replace("{}", value)


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None).strip()


class _Generator:
    def __init__(self, chance: random.Random, major: int) -> None:
        self._chance = chance
        self._major = major
        self._number = 0
        self._types: list[tuple[str, str, str]] = list(_TYPES)
        self._tables: list[_Table] = []
        self._views: list[_Table] = []
        self._sequences: list[str] = []
        self._functions: list[str] = []  # of an integer
        self._triggers: list[str] = []
        self._composites: list[str] = []
        # what COMMENT, GRANT and ALTER … OWNER name
        self._objects: list[tuple[str, str]] = []
        self._parts: list[str] = []

    # ---- chances ----

    def _one(self, *things: str) -> str:
        return self._chance.choice(things)

    def _maybe(self, text: str, likely: float = 0.3) -> str:
        return text if self._chance.random() < likely else ""

    def _some(self, things: Sequence[str], least: int, most: int) -> list[str]:
        most = min(most, len(things))
        return self._chance.sample(list(things), self._chance.randint(min(least, most), most))

    def _name(self, kind: str) -> str:
        self._number += 1
        name = f"{self._chance.choice(_ODD)}{kind}{self._chance.choice(_ODD)}_{self._number}"
        if self._chance.random() < 0.05:
            name = name + "x" * (63 - len(name.encode()))
        return name

    def _new(self, kind: str, word: str | None = None) -> str:
        """A quoted name for something that can be owned."""
        name = _quote(self._name(kind))
        if word is not None:
            self._objects.append((word, name))
        return name

    # ---- kinds of objects, each the commands for one ----

    def enum(self) -> Iterator[str]:
        name = self._new("state", "TYPE")
        labels = ["new", "it's", "paid", "", "é", "A b", "{x}", "a,b"][: self._chance.randint(1, 8)]
        yield f"CREATE TYPE {name} AS ENUM ({', '.join(_literal(label) for label in labels)})"
        if self._maybe("x"):
            yield f"ALTER TYPE {name} ADD VALUE 'early' BEFORE {_literal(labels[0])}"
        if self._maybe("x"):
            yield f"ALTER TYPE {name} RENAME VALUE {_literal(labels[-1])} TO 'renamed'"
            labels.pop()
        label = _literal(labels[-1] if labels else "renamed")
        self._types += [
            (name, label, f"{{}} <> {label}"),
            (name, label, f"{{}} IN ({label}, {_literal(labels[0] if labels else 'renamed')}) OR {{}} IS NULL"),
            (f"{name}[]", f"ARRAY[{label}]::{name}[]", f"{label} = ANY ({{}}) AND {{}} <> ARRAY[{label}]::{name}[]"),
        ]

    def composite(self) -> Iterator[str]:
        name = self._new("pair", "TYPE")
        types = [self._chance.choice(self._types) for _ in range(self._chance.randint(1, 4))]
        columns = [(_quote(self._name("part")), kind[0]) for kind in types]
        yield f"CREATE TYPE {name} AS ({', '.join(f'{column} {kind}' for column, kind in columns)})"
        if len(columns) > 1 and self._maybe("x"):
            yield f"ALTER TYPE {name} ADD ATTRIBUTE more integer"
        self._composites.append(name)
        default = f"ROW({', '.join(kind[1] for kind in types)})"
        self._types.append((name, default, f"({{}}).{columns[0][0]} IS NOT NULL"))
        if self._maybe("x", 0.5):
            self._types.append((f"{name}[]", f"ARRAY[{default}::{name}]", "array_length({}, 1) > 0"))

    def domain(self) -> Iterator[str]:
        name = self._new("amount", "DOMAIN")
        base, default, check = self._chance.choice(self._types)
        condition = _on(check, "VALUE")
        good = _quote(self._name("good"))
        yield (
            f"CREATE DOMAIN {name} AS {base}{self._maybe(f' DEFAULT {default}')}{self._maybe(' NOT NULL', 0.2)}"
            f"{self._maybe(f' CONSTRAINT {good} CHECK ({condition})', 0.6)}"
        )
        if self._maybe("x"):
            yield f"ALTER DOMAIN {name} ADD CHECK ({condition}){self._maybe(' NOT VALID')}"
        self._types.append((name, default, check))

    def typed_table(self) -> Iterator[str]:
        if self._composites:
            name = self._new("of type", "TABLE")
            of = self._chance.choice(self._composites)
            yield f"CREATE TABLE {name} OF {of}{self._maybe(' WITH (fillfactor = 70)')}"

    def cast(self) -> Iterator[str]:
        own = [self._chance.choice(self._types[len(_TYPES) :] or self._types)[0], *(one.name for one in self._tables)]
        types = [self._chance.choice(own), self._chance.choice(self._types)[0].partition(" COLLATE")[0]]
        self._chance.shuffle(types)
        between = " AS ".join(types)
        yield f"CREATE CAST ({between}) WITH INOUT{self._one('', ' AS ASSIGNMENT', ' AS IMPLICIT')}"
        if self._maybe("x"):
            yield f"COMMENT ON CAST ({between}) IS 'it''s said'"

    def range(self) -> Iterator[str]:
        name = self._new("span", "TYPE")
        base = self._one("integer", "text", "numeric", "date", "double precision", "outside.size")
        more = ', collation = "C"' if base == "text" else ""
        more += self._maybe(f", multirange_type_name = {_quote(self._name('spans'))}", 0.5)
        yield f"CREATE TYPE {name} AS RANGE (subtype = {base}{more})"
        self._types.append((name, "'empty'", "NOT isempty({})"))
        self._types.append((f"{name}[]", f"ARRAY['empty'::{name}]", "array_length({}, 1) = 1"))

    def sequence(self) -> Iterator[str]:
        name = self._new("number", "SEQUENCE")
        self._sequences.append(name)
        of = self._one("smallint", "integer")
        yield (
            f"CREATE {self._maybe('UNLOGGED ', 0.1)}SEQUENCE {name} {self._sequence_options()}"
            f"{self._maybe(f' AS {of}')}"
        )
        yield f"SELECT nextval({_literal(name)})"
        if self._tables and self._maybe("x"):
            table = self._chance.choice(self._tables)
            yield f"ALTER SEQUENCE {name} OWNED BY {table.name}.{_quote(self._chance.choice(list(table.columns)))}"

    def _sequence_options(self) -> str:
        if self._maybe("x"):
            return f"INCREMENT BY -{self._chance.randint(1, 3)} MAXVALUE 9 MINVALUE -99 START 5"
        start = self._chance.randint(1, 100)
        return (
            f"START {start} INCREMENT {self._chance.randint(1, 9)} MINVALUE {self._chance.randint(-5, start)}"
            f" MAXVALUE {self._chance.randint(start, 9999)} CACHE {self._chance.randint(1, 5)}{self._maybe(' CYCLE')}"
        )

    def function(self) -> Iterator[str]:
        name = self._new("reckoned")
        volatility = self._one("IMMUTABLE", "IMMUTABLE", "STABLE", "VOLATILE")
        more = f"{volatility}{self._maybe(' STRICT')}{self._maybe(' SECURITY DEFINER', 0.2)}{self._maybe(' COST 7')}"
        more += self._maybe(" PARALLEL SAFE") + self._maybe(" LEAKPROOF", 0.1)
        more += self._maybe(" SET DateStyle = 'ISO, MDY' SET work_mem = '1MB'", 0.2)
        inner = self._chance.choice(self._functions) if self._functions else "outside.twice"
        bodies = (
            "AS 'SELECT $1 + 1'",
            f"RETURN {inner}($1) + 2",
            "AS $$SELECT $1 -- it's\n$$",
            f"BEGIN ATOMIC SELECT {inner}($1); END",
            f"RETURN CASE WHEN $1 > 1 THEN length('it''s {{') ELSE {inner}(3) END",
        )
        yield f"CREATE FUNCTION {name}(integer) RETURNS integer LANGUAGE sql {more} {self._chance.choice(bodies)}"
        self._objects.append(("FUNCTION", f"{name}(integer)"))
        if volatility == "IMMUTABLE":
            self._functions.append(name)

    def odd_function(self) -> Iterator[str]:
        """One whose arguments and result are of any type."""
        name = self._new("odd")
        first, second = self._chance.choice(self._types), self._chance.choice(self._types)
        plain = [kind[0].partition(" COLLATE")[0] for kind in (first, second)]
        table = self._chance.choice(self._tables) if self._tables else None
        yield self._one(
            f"CREATE FUNCTION {name}(a {plain[0]} DEFAULT {first[1]}, b {plain[1]} DEFAULT {second[1]})"
            f" RETURNS SETOF {plain[1]} LANGUAGE plpgsql ROWS 5 AS 'BEGIN RETURN NEXT b; END'",
            f"CREATE FUNCTION {name}(VARIADIC a {plain[0]}[]) RETURNS integer LANGUAGE sql RETURN array_length(a, 1)",
            f"CREATE FUNCTION {name}(a {plain[0]}, OUT b {plain[1]}, INOUT c integer DEFAULT 3) LANGUAGE plpgsql"
            " AS 'BEGIN END'",
            f"CREATE FUNCTION {name}(anyelement, b {plain[0]} DEFAULT {first[1]}) RETURNS anyarray LANGUAGE sql"
            " AS 'SELECT ARRAY[$1]'",
            f"CREATE PROCEDURE {name}(INOUT a {plain[0]} DEFAULT {first[1]}, OUT b {plain[1]}) LANGUAGE plpgsql"
            " AS 'BEGIN END'",
            f"CREATE FUNCTION {name}() RETURNS TABLE (a {plain[0]}, b {plain[1]}) LANGUAGE sql"
            f" BEGIN ATOMIC SELECT {first[1]}, {second[1]}; END",
            *(
                (
                    f"CREATE FUNCTION {name}({table.name}) RETURNS {table.name} LANGUAGE sql AS 'SELECT $1'",
                    f"CREATE FUNCTION {name}() RETURNS SETOF {table.name} LANGUAGE sql"
                    f" BEGIN ATOMIC SELECT * FROM {table.name}; END",
                    f"CREATE PROCEDURE {name}(a integer DEFAULT 1) LANGUAGE sql BEGIN ATOMIC DELETE FROM {table.name};"
                    f" INSERT INTO {table.name} DEFAULT VALUES; END",
                )
                if table
                else ()
            ),
        )

    def named_function(self) -> Iterator[str]:
        """One whose text names the schema, which is called model."""
        name = self._new("named")
        table = self._chance.choice(self._tables).name if self._tables else "t"
        body = self._one(
            f"SELECT count(*) FROM model.{table} -- model.{table} and it's\n",
            # a name could begin a comment in the comment
            f"SELECT /* model.{name.replace('/*', '')} */ model.{name}($1) OPERATOR(model.*) 1, 'it''s', $$ ' $$",
            f"SELECT count(*) FROM model.{table} AS t, model.{name} AS \"u's\" WHERE E'\\'' <> model.f({table}, 1.5)",
            f"BEGIN FOR i IN SELECT 1 FROM model.{table} LOOP PERFORM model.{name}(i)::model.x[]; END LOOP; END",
        )
        path = self._maybe(f" SET search_path = {self._one('model', 'pg_catalog, model', 'model, outside')}")
        yield (
            f"SET LOCAL check_function_bodies = off; CREATE FUNCTION {name}(integer) RETURNS bigint"
            f" LANGUAGE {self._one('sql', 'plpgsql')}{path} AS {_literal(body)}"
        )
        self._objects.append(("FUNCTION", f"{name}(integer)"))

    def trigger_function(self) -> Iterator[str]:
        name = self._new("fired")
        yield f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        self._objects.append(("FUNCTION", f"{name}()"))
        self._triggers.append(name)

    def table(self) -> Iterator[str]:
        table = _Table(self._new("table", "TABLE"))
        parents = [one for one in self._tables if not one.partitioned and one.columns]
        parent = self._chance.choice(parents) if parents and self._chance.random() < 0.12 else None
        parts = [self._column(table) for _ in range(self._chance.randint(1, 6))]
        parts += self._table_constraints(table)
        partition = ""
        if parent is None and table.columns and self._chance.random() < 0.25:
            table.partitioned = True
            column = _quote(next(iter(table.columns)))
            partition = f" PARTITION BY {self._one('RANGE', 'LIST', 'HASH')} ({column})"
        space = self._one("space1", "space2")
        options = self._maybe(" WITH (fillfactor = 70, toast.autovacuum_enabled = off)", 0.15) if not partition else ""
        yield (
            f"CREATE {self._maybe('UNLOGGED ', 0.1) if not partition else ''}TABLE {table.name} ({', '.join(parts)})"
            f"{f' INHERITS ({parent.name})' if parent else ''}{partition}{options}"
            f"{self._maybe(f' TABLESPACE {space}', 0.1)}"
        )
        self._tables.append(table)
        if partition:
            yield from self._partitions(table)
        yield from self._changes(table)

    def _column(self, table: _Table) -> str:
        name = self._name("column")
        kind = self._chance.choice(self._types)
        table.columns[name] = kind
        column = _quote(name)
        integers = [one for one, (of, *_) in table.columns.items() if of == "integer" and one != name]
        chance = self._chance.random()
        if chance < 0.1:
            table.columns[name] = _TYPES[0]
            return f"{column} {self._one('serial', 'bigserial')}{self._maybe(' PRIMARY KEY', 0.2)}"
        if chance < 0.2:
            table.columns[name] = _TYPES[0]
            how = self._one("ALWAYS", "BY DEFAULT")
            return f"{column} integer GENERATED {how} AS IDENTITY{self._maybe(f' ({self._sequence_options()})', 0.5)}"
        if chance < 0.28 and integers:
            table.columns[name] = ("bigint", "7", "{} > 0")
            stored = "STORED" if self._major < 18 else self._one("STORED", "VIRTUAL")
            call = self._chance.choice(self._functions) if self._functions and stored == "STORED" else "abs"
            return f"{column} bigint GENERATED ALWAYS AS ({call}({_quote(integers[0])}) * 2) {stored}"
        if chance < 0.36 and self._sequences:
            table.columns[name] = _TYPES[0]
            return f"{column} integer DEFAULT nextval({_literal(self._chance.choice(self._sequences))})"
        if chance < 0.42 and self._functions:
            table.columns[name] = _TYPES[0]
            return f"{column} integer DEFAULT {self._chance.choice(self._functions)}(7)"
        check = _on(kind[2], column)
        named = self._maybe(f" CONSTRAINT {_quote(self._name('check'))}", 0.5)
        checked = f"{named} CHECK ({check})" + self._maybe(" NO INHERIT", 0.1)
        not_null = self._maybe(f" CONSTRAINT {_quote(self._name('present'))}", 0.3) + " NOT NULL"
        target = self._one("outside.country", table.name)
        return (
            f"{column} {kind[0]}{self._maybe(f' DEFAULT {kind[1]}', 0.5)}{self._maybe(not_null)}"
            f"{self._maybe(checked)}{self._maybe(' UNIQUE', 0.08)}{self._maybe(f' REFERENCES {target}', 0.08)}"
        )

    def _table_constraints(self, table: _Table) -> list[str]:
        columns = list(table.columns)
        result = []
        if self._maybe("x", 0.5):
            key = self._some(columns, 1, 2)
            table.keys.append(tuple(key))
            rest = [column for column in columns if column not in key]
            include = f" INCLUDE ({_quote(rest[0])})" if rest and self._maybe("x", 0.2) else ""
            named = self._maybe(f"CONSTRAINT {_quote(self._name('key'))} ", 0.4)
            word = self._one("PRIMARY KEY", "PRIMARY KEY", "UNIQUE", "UNIQUE NULLS NOT DISTINCT")
            result.append(
                f"{named}{word} ({table.quoted(*key)}){include}{self._maybe(' WITH (fillfactor = 60)', 0.2)}"
                f"{self._maybe(' DEFERRABLE INITIALLY DEFERRED', 0.15)}"
            )
        if self._maybe("x", 0.12):
            column = _quote(self._chance.choice(columns))
            using = self._one("btree", "hash", "gist")
            operator = "&&" if using == "gist" else "="
            result.append(
                f"EXCLUDE USING {using} ({column} WITH {operator}){self._maybe(f' WHERE ({column} IS NOT NULL)')}"
                f"{self._maybe(' DEFERRABLE')}"
            )
        return result

    def _partitions(self, table: _Table) -> Iterator[str]:
        column = next(iter(table.columns))
        name = table.parts = [self._new("part", "TABLE") for _ in range(3)]
        of = f"PARTITION OF {table.name}"
        # one of these three fits the strategy, where the type has such values
        yield f"CREATE TABLE {name[0]} {of} FOR VALUES FROM (MINVALUE) TO ({table.columns[column][1]})"
        yield f"CREATE TABLE {name[0]} {of} FOR VALUES IN ({table.columns[column][1]}, NULL)"
        yield f"CREATE TABLE {name[0]} {of} FOR VALUES WITH (MODULUS 2, REMAINDER 0)"
        if self._maybe("x"):
            other = _quote(list(table.columns)[-1])
            yield f"CREATE TABLE {name[1]} {of} ({other} DEFAULT NULL) DEFAULT PARTITION BY LIST ({_quote(column)})"
            yield f"CREATE TABLE {name[2]} PARTITION OF {name[1]} DEFAULT"
        else:
            yield f"CREATE TABLE {name[1]} {of} DEFAULT"
        if self._maybe("x"):
            yield f"CREATE TABLE {name[2]} (gone integer, LIKE {table.name} INCLUDING ALL)"
            yield f"ALTER TABLE {name[2]} DROP COLUMN gone"
            attach = f"ALTER TABLE {table.name} ATTACH PARTITION {name[2]} FOR VALUES"
            yield f"{attach} WITH (MODULUS 2, REMAINDER 1)"
            yield f"{attach} FROM ({table.columns[column][1]}) TO (MAXVALUE)"

    def _changes(self, table: _Table) -> Iterator[str]:
        """What is done to a table afterwards."""
        columns = list(table.columns)
        alter = f"ALTER TABLE {table.name}"
        if len(columns) > 2 and self._maybe("x"):
            gone = self._chance.choice(columns)
            if not any(gone in key for key in table.keys) and not (table.partitioned and gone == columns[0]):
                del table.columns[gone]
                yield f"{alter} DROP COLUMN {_quote(gone)} CASCADE"
        columns = list(table.columns)
        column = self._chance.choice(columns)
        quoted = _quote(column)
        kind = table.columns[column]
        condition = _on(kind[2], quoted)
        added = self._name("added")
        said = _literal(f"{self._chance.choice(_ODD)} it's said")
        changes = [
            f"{alter} ADD COLUMN {_quote(added)} {_TYPES[0][0]} DEFAULT 7 NOT NULL",
            f"{alter} ALTER COLUMN {quoted} SET STORAGE {self._one('EXTERNAL', 'MAIN', 'EXTENDED')}",
            f"{alter} ALTER COLUMN {quoted} SET COMPRESSION pglz",
            f"{alter} ALTER COLUMN {quoted} SET STATISTICS {self._chance.randint(0, 99)}",
            f"{alter} ALTER COLUMN {quoted} SET (n_distinct = -0.5)",
            f"{alter} ALTER COLUMN {quoted} DROP DEFAULT",
            f"{alter} ALTER COLUMN {quoted} SET NOT NULL",
            f"{alter} ADD CONSTRAINT {_quote(self._name('later'))} CHECK ({condition}) NOT VALID",
            f"{alter} ENABLE ROW LEVEL SECURITY",
            f"{alter} FORCE ROW LEVEL SECURITY",
            f"{alter} REPLICA IDENTITY FULL",
            f"{alter} SET (autovacuum_vacuum_threshold = 9)",
            f"COMMENT ON COLUMN {table.name}.{quoted} IS {said}",
            f"GRANT SELECT ({quoted}), UPDATE ({quoted}) ON {table.name} TO reader{self._maybe(' WITH GRANT OPTION')}",
            f"GRANT INSERT ({quoted}) ON {table.name} TO PUBLIC",
        ]
        if self._major >= 18:
            changes.append(f"{alter} ADD CONSTRAINT {_quote(self._name('nn'))} NOT NULL {quoted} NOT VALID")
            changes.append(f"{alter} ADD CONSTRAINT {_quote(self._name('ne'))} CHECK ({condition}) NOT ENFORCED")
        yield from self._some(changes, 0, 3)

    def key(self) -> Iterator[str]:
        """A foreign key from one table to another."""
        targets = [(one, key) for one in self._tables for key in one.keys]
        if not targets:
            return
        target, key = self._chance.choice(targets)
        table = self._chance.choice(self._tables)
        columns = []
        for wanted in key:
            columns.append(self._name("refers"))
            yield f"ALTER TABLE {table.name} ADD COLUMN {_quote(columns[-1])} {target.columns[wanted][0]}"
            table.columns[columns[-1]] = target.columns[wanted]
        name = _quote(self._name("fk"))
        yield (
            f"ALTER TABLE {table.name} ADD CONSTRAINT {name} FOREIGN KEY ({table.quoted(*columns)})"
            f" REFERENCES {target.name} ({target.quoted(*key)}){self._maybe(' MATCH FULL', 0.2)}"
            f" ON DELETE {self._one('NO ACTION', 'CASCADE', 'SET NULL', 'RESTRICT', 'SET DEFAULT')}"
            f"{self._maybe(' ON UPDATE CASCADE')}{self._one('', '', ' DEFERRABLE', ' DEFERRABLE INITIALLY DEFERRED')}"
            f"{self._maybe(' NOT VALID', 0.1)}"
        )
        self._parts.append(f"CONSTRAINT {name} ON {table.name}")
        for part in self._some(table.parts, 0, 2):
            own = _quote(self._name("own"))
            yield f"ALTER TABLE {part} RENAME CONSTRAINT {name} TO {own}"
            self._parts.append(f"CONSTRAINT {own} ON {part}")

    def operator(self) -> Iterator[str]:
        """One whose commutator and negator may come later, or never."""
        function = self._new("compared")
        left, right = (self._chance.choice(self._types)[0].partition(" COLLATE")[0] for _ in range(2))
        yield f"CREATE FUNCTION {function}({left}, {right}) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN $1 IS NULL"
        yield f"CREATE FUNCTION {function}({right}, {left}) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN $2 IS NULL"
        names = self._some(["===", "@#@", "<=>", "~#~", "!==", "|#|"], 3, 3)
        arguments = f"FUNCTION = {function}, LEFTARG = {left}, RIGHTARG = {right}"
        yield (
            f"CREATE OPERATOR {names[0]} ({arguments}{self._maybe(f', COMMUTATOR = {names[1]}', 0.6)}"
            f"{self._maybe(f', NEGATOR = {names[2]}', 0.6)}{self._maybe(', RESTRICT = eqsel')})"
        )
        back = self._maybe(f", COMMUTATOR = {names[0]}", 0.6)
        yield from self._some(
            [
                f"CREATE OPERATOR {names[1]} (FUNCTION = {function}, LEFTARG = {right}, RIGHTARG = {left}{back})",
                f"CREATE OPERATOR {names[2]} ({arguments})",
                f"COMMENT ON OPERATOR {names[1]} ({right}, {left}) IS 'a commutator'",
                f"ALTER OPERATOR {names[2]} ({left}, {right}) OWNER TO maker",
            ],
            0,
            3,
        )
        if self._maybe("x", 0.2):
            yield f"DROP OPERATOR {names[0]} ({left}, {right})"

    def index(self) -> Iterator[str]:
        tables = [*self._tables, *self._views]
        if not tables:
            return
        table = self._chance.choice(tables)
        column = self._chance.choice(list(table.columns))
        quoted = _quote(column)
        kind = table.columns[column]
        call = self._chance.choice(self._functions) if self._functions else "abs"
        condition = _on(kind[2], quoted)
        name = self._new("index", "INDEX")
        what = self._one(
            f"({quoted})",
            f"({quoted})",
            f"({quoted} DESC NULLS LAST)",
            f"({call}({quoted}))",
            f"(({call}({quoted}::integer) + 1), {quoted})",
            f'(lower({quoted}::text) COLLATE "C" text_pattern_ops)',
            f"(({quoted}::text || 'it''s'))",
            f"({quoted}) INCLUDE ({_quote(self._chance.choice(list(table.columns)))})",
        )
        using = self._one("", "", "", "USING hash ", "USING gin ", "USING gist ", "USING brin ", "USING spgist ")
        unique = self._maybe("UNIQUE ", 0.2)
        nulls = " NULLS NOT DISTINCT" if unique and self._maybe("x") else ""
        yield (
            f"CREATE {unique}INDEX {name} ON {table.name} {using}{what}{nulls}"
            f"{'' if using else self._maybe(' WITH (fillfactor = 50)', 0.15)}{self._maybe(f' WHERE {condition}', 0.2)}"
        )
        if table.is_view:
            return
        yield from self._some(
            [
                f"ALTER TABLE {table.name} CLUSTER ON {name}",
                f"ALTER TABLE {table.name} REPLICA IDENTITY USING INDEX {name}",
                f"ALTER INDEX {name} ALTER COLUMN 1 SET STATISTICS 9",
                f"ALTER INDEX {name} SET TABLESPACE space3",
                f"ALTER TABLE {table.name} ADD CONSTRAINT {_quote(self._name('by'))} UNIQUE USING INDEX {name}",
            ],
            0,
            1,
        )

    def statistics(self) -> Iterator[str]:
        tables = [one for one in self._tables if len(one.columns) > 1]
        if not tables:
            return
        table = self._chance.choice(tables)
        name = self._new("stats", "STATISTICS")
        columns = table.quoted(*self._some(list(table.columns), 2, 3))
        what = self._one(columns, f"{columns}, (length({columns.partition(', ')[0]}::text))")
        kinds = self._maybe(f"({self._one('ndistinct', 'dependencies, mcv', 'mcv')}) ", 0.6)
        yield f"CREATE STATISTICS {name} {kinds}ON {what} FROM {table.name}"
        yield from self._some([f"ALTER STATISTICS {name} SET STATISTICS 5"], 0, 1)

    def view(self) -> Iterator[str]:
        sources = [*self._tables, *self._views]
        if not sources:
            return
        one, other = self._chance.choice(sources), self._chance.choice(sources)
        name = self._new("view")
        view = _Table(name, is_view=True)
        column = self._chance.choice(list(one.columns))
        kind = one.columns[column]
        x = f"x.{_quote(column)}"
        y = f"y.{_quote(self._chance.choice(list(other.columns)))}"
        condition = _on(kind[2], x)
        call = self._chance.choice(self._functions) if self._functions else "outside.twice"
        a, b = self._name("a"), self._name("b")
        ways: tuple[tuple[str, dict[str, tuple[str, str, str]]], ...] = (
            (f"SELECT {x} AS {_quote(a)}, x.tableoid AS {_quote(b)} FROM {one.name} x WHERE {condition}", {a: kind}),
            (
                f"SELECT {x} AS {_quote(a)}, {call}(count({y})::integer) AS {_quote(b)} FROM {one.name} x"
                f" LEFT JOIN {other.name} y ON {condition} GROUP BY {x}",
                {a: kind, b: _TYPES[0]},
            ),
            (
                f"WITH z AS MATERIALIZED (SELECT {y} FROM {other.name} y) SELECT {x} AS {_quote(a)},"
                f" row_number() OVER (PARTITION BY {x} ORDER BY x.*) AS {_quote(b)} FROM {one.name} x, z",
                {a: kind},
            ),
            (f"SELECT {x} AS {_quote(a)} FROM {one.name} x UNION ALL SELECT {kind[1]} AS b", {a: kind}),
            (f"SELECT x AS {_quote(b)}, {x} AS {_quote(a)} FROM {one.name} x, LATERAL (SELECT {x}) l", {a: kind}),
            (
                f"SELECT CASE WHEN {condition} THEN {x} ELSE {kind[1]} END AS {_quote(a)}, (SELECT max({call}(3)) FROM"
                f" {other.name} y WHERE EXISTS (SELECT FROM {one.name})) AS {_quote(b)} FROM {one.name} x"
                f" WHERE x.* IS NOT NULL ORDER BY 1 LIMIT 5",
                {a: kind},
            ),
        )
        query, view.columns = self._chance.choice(ways)
        self._views.append(view)
        if self._maybe("x", 0.25):
            self._objects.append(("MATERIALIZED VIEW", name))
            # of some types there is no index, and some expressions cannot be calculated
            yield f"CREATE MATERIALIZED VIEW {name} AS {query}{self._maybe(' WITH NO DATA')}"
            return
        self._objects.append(("VIEW", name))
        options = self._maybe(" WITH (security_barrier)", 0.2) or self._maybe(" WITH (security_invoker = true)", 0.2)
        yield f"CREATE VIEW {name}{options} AS {query}"
        renamed = self._name("renamed")
        if self._maybe("x", 0.15):
            first = next(iter(view.columns))
            yield f"ALTER VIEW {name} RENAME COLUMN {_quote(first)} TO {_quote(renamed)}"
            view.columns = {renamed if key == first else key: value for key, value in view.columns.items()}
        first = next(iter(view.columns))
        yield from self._some(
            [
                f"ALTER VIEW {name} ALTER COLUMN {_quote(first)} SET DEFAULT {view.columns[first][1]}",
                f"ALTER VIEW {name} SET (check_option = local)",
                f"COMMENT ON COLUMN {name}.{_quote(first)} IS 'of a view'",
            ],
            0,
            1,
        )

    def rename_column(self) -> Iterator[str]:
        """Also of tables that views and expressions have."""
        if not self._tables:
            return
        table = self._chance.choice(self._tables)
        old = self._chance.choice(list(table.columns))
        new = self._name("renamed")
        yield f"ALTER TABLE {table.name} RENAME COLUMN {_quote(old)} TO {_quote(new)}"
        table.columns = {new if key == old else key: kind for key, kind in table.columns.items()}
        table.keys = [tuple(new if key == old else key for key in keys) for keys in table.keys]

    def trigger(self) -> Iterator[str]:
        tables = [*self._tables, *self._views]
        if not tables or not self._triggers:
            return
        table = self._chance.choice(tables)
        name = _quote(self._name("trigger"))
        column = self._chance.choice(list(table.columns))
        kind = table.columns[column]
        new = f"NEW.{_quote(column)}"
        condition = _on(kind[2], new)
        arguments = self._one("", "'it''s', 7")
        call = f"EXECUTE FUNCTION {self._chance.choice(self._triggers)}({arguments})"
        when = self._maybe(f" WHEN ({condition})", 0.4)
        if table.is_view:
            yield f"CREATE TRIGGER {name} INSTEAD OF UPDATE OR DELETE ON {table.name} FOR EACH ROW {call}"
        else:
            yield self._one(
                f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE OF {_quote(column)} ON {table.name} FOR EACH ROW{when}"
                f" {call}",
                f"CREATE TRIGGER {name} AFTER UPDATE ON {table.name} REFERENCING OLD TABLE AS o NEW TABLE AS n"
                f" FOR EACH STATEMENT {call}",
                f"CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON {table.name} DEFERRABLE INITIALLY DEFERRED"
                f" FOR EACH ROW{when} {call}",
                f"CREATE TRIGGER {name} AFTER TRUNCATE ON {table.name} {call}",
            )
            if self._maybe("x"):
                state = self._one("DISABLE", "ENABLE ALWAYS", "ENABLE REPLICA")
                yield f"ALTER TABLE {table.name} {state} TRIGGER {name}"
        self._parts.append(f"TRIGGER {name} ON {table.name}")

    def rule(self) -> Iterator[str]:
        tables = [*self._tables, *self._views]
        if not tables:
            return
        table, other = self._chance.choice(tables), self._chance.choice(tables)
        name = _quote(self._name("rule"))
        column = self._chance.choice(list(table.columns))
        kind = table.columns[column]
        old = f"OLD.{_quote(column)}"
        condition = _on(kind[2], old)
        yield self._one(
            f"CREATE RULE {name} AS ON DELETE TO {table.name} WHERE {condition} DO INSTEAD NOTHING",
            f"CREATE RULE {name} AS ON UPDATE TO {table.name} DO ALSO DELETE FROM {other.name}",
            f"CREATE RULE {name} AS ON UPDATE TO {table.name} DO ALSO NOTIFY changed, 'it''s'",
            f"CREATE RULE {name} AS ON INSERT TO {table.name} WHERE NEW.{_quote(column)} IS NULL DO ALSO"
            f" (UPDATE {other.name} SET {_quote(next(iter(other.columns)))} = DEFAULT; SELECT 1)",
        )
        if self._maybe("x", 0.2):
            yield f"ALTER TABLE {table.name} {self._one('DISABLE', 'ENABLE ALWAYS')} RULE {name}"
        self._parts.append(f"RULE {name} ON {table.name}")

    def policy(self) -> Iterator[str]:
        if not self._tables:
            return
        table, other = self._chance.choice(self._tables), self._chance.choice(self._tables)
        name = _quote(self._name("policy"))
        column = self._chance.choice(list(table.columns))
        kind = table.columns[column]
        condition = self._one(
            _on(kind[2], _quote(column)),
            f"EXISTS (SELECT FROM {other.name} o WHERE o.* IS NOT NULL)",
            "current_setting('app.tenant', true) = current_user",
        )
        command, with_check = self._chance.choice(
            [("ALL", True), ("SELECT", False), ("UPDATE", True), ("DELETE", False)]
        )
        check = self._maybe(f" WITH CHECK ({condition})") if with_check else ""
        yield (
            f"CREATE POLICY {name} ON {table.name} AS {self._one('PERMISSIVE', 'RESTRICTIVE')} FOR {command}"
            f" TO {self._one('PUBLIC', 'reader, maker', 'maker')} USING ({condition}){check}"
        )
        self._parts.append(f"POLICY {name} ON {table.name}")

    def about(self) -> Iterator[str]:
        """A comment, an owner or grants."""
        said = _literal(f"it's {self._chance.choice(_ODD)}\nsaid \\")
        if self._parts and self._maybe("x"):
            yield f"COMMENT ON {self._chance.choice(self._parts)} IS {said}"
        if not self._objects:
            return
        word, name = self._chance.choice(self._objects)
        rights = {
            "TABLE": ("SELECT", "INSERT, UPDATE", "ALL"), "VIEW": ("SELECT", "ALL"), "SEQUENCE": ("USAGE", "ALL"),
            "MATERIALIZED VIEW": ("SELECT",), "FUNCTION": ("EXECUTE",), "TYPE": ("USAGE",), "DOMAIN": ("USAGE",),
        }.get(word, ("SELECT",))  # fmt: skip
        on = {"VIEW": "TABLE", "MATERIALIZED VIEW": "TABLE", "INDEX": "TABLE", "STATISTICS": "TABLE"}.get(word, word)
        right = self._chance.choice(rights)
        yield self._one(
            f"COMMENT ON {word} {name} IS {said}",
            f"GRANT {right} ON {on} {name} TO {self._one('reader', 'maker', 'PUBLIC')}",
            f"GRANT {right} ON {on} {name} TO reader WITH GRANT OPTION",
            f"REVOKE ALL ON {on} {name} FROM {self._one('PUBLIC', 'CURRENT_USER')}",
            # who could not read what a materialized view reads could not refresh it
            *([] if word == "MATERIALIZED VIEW" else [f"ALTER {word} {name} OWNER TO maker"]),
        )

    def default_privileges(self) -> Iterator[str]:
        what = self._one("SELECT ON TABLES", "ALL ON SEQUENCES", "EXECUTE ON FUNCTIONS", "USAGE ON TYPES")
        to = self._one("reader", "maker WITH GRANT OPTION")
        granted = f"{self._maybe('FOR ROLE maker ')}IN SCHEMA %I GRANT {what} TO {to}"
        yield f"DO $do$ BEGIN EXECUTE format('ALTER DEFAULT PRIVILEGES {granted}', current_schema()); END $do$"


def script(seed: str, major: int) -> list[str]:
    """Return the commands of one schema."""
    chance = random.Random(seed)
    generator = _Generator(chance, major)
    kinds: list[tuple[Callable[[], Iterator[str]], int]] = [
        (generator.enum, 2), (generator.composite, 2), (generator.domain, 3), (generator.range, 1),
        (generator.sequence, 2), (generator.function, 3), (generator.odd_function, 3), (generator.trigger_function, 1),
        (generator.table, 9), (generator.key, 5), (generator.index, 6), (generator.statistics, 2),
        (generator.view, 6), (generator.rename_column, 1), (generator.trigger, 3), (generator.rule, 2),
        (generator.typed_table, 1), (generator.cast, 2), (generator.named_function, 2), (generator.operator, 2),
        (generator.policy, 3), (generator.about, 8), (generator.default_privileges, 1),
    ]  # fmt: skip
    commands = [*generator.enum(), *generator.trigger_function(), *generator.function(), *generator.table()]
    for make in chance.choices([kind for kind, _ in kinds], [often for _, often in kinds], k=chance.randint(5, 45)):
        commands += make()
    return commands
