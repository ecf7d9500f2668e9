"""Generated queries of roles that must not see all rows, and queries that call volatile functions.

Rows of `plain` whose number is divisible by three belong to nobody, the others to sees_1 and sees_2. What leaks would
show other roles' rows: noted() raises a notice of a row's number, and operators raise an error of rows of nobody.
"""

from __future__ import annotations

import random

ROLES = (1, 2)
TABLES = """
CREATE FUNCTION noted(x integer) RETURNS boolean STABLE PARALLEL SAFE COST 0.0001 LANGUAGE plpgsql
    AS 'BEGIN RAISE NOTICE ''%'', x; RETURN true; END';
CREATE SEQUENCE calls;
SELECT nextval('calls');
CREATE FUNCTION called(x integer) RETURNS integer VOLATILE LANGUAGE plpgsql
    AS 'BEGIN PERFORM nextval(''public.calls''); RETURN x; END';
CREATE TABLE plain (id integer, owner text, k integer, m integer, v bigint, n numeric, t text);
INSERT INTO plain SELECT i, 'sees_' || i % 3, nullif(i % 11, 4), i % 5, i % 17, (i % 7) / 2.0,
    CASE WHEN i % 3 = 0 THEN 'hidden ' ELSE '' END || i FROM generate_series(1, 240) i;
CREATE TABLE members (who text, rest integer);
INSERT INTO members VALUES ('sees_1', 1), ('sees_2', 2), ('sees_1', 1), ('sees_3', 0);
CREATE TABLE o (id integer, k integer, m integer);
INSERT INTO o SELECT i, nullif(i % 12, 3), i % 4 FROM generate_series(1, 45) i;
CREATE TABLE docs AS TABLE plain;
CREATE POLICY own ON docs USING (owner = current_user);
CREATE TABLE notes AS TABLE plain;
CREATE POLICY own ON notes USING
    (EXISTS (SELECT FROM members m WHERE m.who = current_user AND m.rest = notes.id % 3));
CREATE TABLE parted (LIKE plain) PARTITION BY RANGE (v);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (9);
CREATE TABLE parted_2 PARTITION OF parted DEFAULT;
INSERT INTO parted TABLE plain;
CREATE POLICY own ON parted USING (owner = current_user);
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE parted ENABLE ROW LEVEL SECURITY;
CREATE VIEW mine WITH (security_barrier) AS SELECT * FROM plain WHERE owner = current_user;
CREATE VIEW own WITH (security_barrier) AS
    SELECT p.* FROM plain p WHERE EXISTS (SELECT FROM members m WHERE m.who = current_user AND m.rest = p.id % 3);
CREATE VIEW joined WITH (security_barrier) AS
    SELECT DISTINCT p.* FROM plain p JOIN members m ON m.rest = p.id % 3 WHERE m.who = current_user;
-- of a UNION ALL, PostgreSQL forgets that the view is a barrier
CREATE VIEW several AS SELECT * FROM mine UNION ALL SELECT id, owner, k, m, v + 1, n, t FROM own WHERE id < 100;
CREATE VIEW through WITH (security_invoker) AS SELECT * FROM docs WHERE k > 0;
CREATE INDEX ON docs (k);
CREATE INDEX ON docs USING columns (id, owner, k, m, v, n, t);
CREATE INDEX ON plain USING columns (id, owner, k, m, v);
CREATE INDEX ON parted_1 USING columns (id, owner, k, m, v, n, t);
GRANT SELECT ON ALL TABLES IN SCHEMA public TO sees_1, sees_2;
REVOKE SELECT ON plain FROM sees_1, sees_2;
GRANT ALL ON SEQUENCE calls TO sees_1, sees_2
"""
GUARDED = ("docs", "docs", "notes", "parted", "mine", "mine", "own", "joined", "several", "through")
_LEAKY = (
    "noted({a}.id)", "noted({a}.id)", "{a}.id / ({a}.id % 3) > 0", "{a}.t::integer > 0", "100 / ({a}.id % 3) > {a}.m",
    "(noted({a}.id) OR {a}.v > 90)", "{a}.k IN (SELECT 100 / ({a}.id % 3) - 47)", "noted({a}.id + 0 * {a}.v::integer)",
)  # fmt: skip
_OTHERS = (
    "{a}.v > 3", "{a}.k = 3", "{a}.m < 3", "{a}.n <> 2", "{a}.k IS NOT NULL", "{a}.id % 2 = 0", "{a}.owner <> 'x'",
    "{a}.k BETWEEN 2 AND 8", "{a}.t > '1'",
)  # fmt: skip
_QUERIES = (
    "SELECT count(*), sum(a.v), min(a.t) FROM {d} a WHERE {c}",
    "SELECT a.k, count(*), max(a.n) FROM {d} a WHERE {c} GROUP BY 1",
    "SELECT a.k, a.m, sum(a.v) FROM {d} a WHERE {c} GROUP BY ROLLUP (1, 2)",
    "SELECT a.id, a.t FROM {d} a WHERE {c}",
    "SELECT a.id, a.v FROM {d} a WHERE {c} ORDER BY a.v, a.id LIMIT 7",
    "SELECT DISTINCT a.k, a.owner FROM {d} a WHERE {c}",
    "SELECT sum(a.id / (a.id % 3)), count(*) FILTER (WHERE {c}) FROM {d} a",
    "SELECT a.id / (a.id % 3) x, count(*) FROM {d} a GROUP BY 1",
    "SELECT o.id, (SELECT max(a.v) FROM {d} a WHERE a.k = o.k AND {c}) FROM o",
    "SELECT o.id, (SELECT count(*) FROM {d} a WHERE a.k = o.k AND a.m <= o.m AND {c}) FROM o",
    "SELECT count(*) FROM o WHERE o.m < (SELECT avg(a.m) FROM {d} a WHERE a.k = o.k AND {c})",
    "SELECT o.id FROM o WHERE EXISTS (SELECT FROM {d} a WHERE a.k = o.k AND {c})",
    "SELECT o.id FROM o WHERE NOT EXISTS (SELECT FROM {d} a WHERE a.k = o.k AND {c})",
    "SELECT o.id FROM o WHERE EXISTS (SELECT FROM {d} a WHERE a.k = o.k AND o.id / (a.id % 3) >= 0 AND {c} OFFSET 0)",
    "SELECT o.id FROM o WHERE o.k IN (SELECT a.k FROM {d} a WHERE {c})",
    "SELECT o.id FROM o WHERE o.k NOT IN (SELECT a.k FROM {d} a WHERE {c})",
    "SELECT o.id FROM o WHERE o.m > ALL (SELECT a.m FROM {d} a WHERE a.k = o.k AND {c})",
    "SELECT a.k, count(*) FROM {d} a WHERE {c} AND EXISTS (SELECT FROM {e} b WHERE b.k = a.k AND {f}) GROUP BY 1",
    "SELECT a.id, (SELECT sum(b.v) FROM {e} b WHERE b.k = a.k AND {f}) FROM {d} a WHERE {c}",
    "SELECT count(*), sum(a.v) FROM o JOIN {d} a ON a.k = o.k AND {c}",
    "SELECT count(*) FROM o JOIN {d} a ON a.k = o.k AND o.id / (a.id % 3) >= 0",
    "SELECT o.id, a.t FROM o LEFT JOIN {d} a ON a.k = o.k AND {c}",
    "SELECT a.m, count(*), sum(b.v) FROM {d} a JOIN {e} b ON a.k = b.k AND a.m = b.m WHERE {c} AND {f} GROUP BY 1",
    "SELECT a.m, count(*) FROM {d} a JOIN {e} b ON a.id = b.id AND a.v / (b.id % 3) >= 0 WHERE {c} GROUP BY 1",
    "SELECT u.k, count(*), max(u.v) FROM (SELECT a.k, a.v FROM {d} a WHERE {c} UNION ALL SELECT b.k, b.m FROM {e} b"
    " WHERE {f}) u GROUP BY 1",
    "SELECT a.id, rank() OVER (ORDER BY a.v, a.id) FROM {d} a WHERE {c}",
    "SELECT a.id FROM {d} a WHERE {c} ORDER BY a.id / (a.id % 3), a.id",
    "WITH w AS MATERIALIZED (SELECT * FROM {d} a WHERE {c}) SELECT w.k, count(*) FROM w JOIN o ON o.k = w.k GROUP BY 1",
    # errors of rows that may be seen
    "SELECT o.id, (SELECT sum(100 / (a.m - o.m)) FROM {d} a WHERE a.k = o.k AND {c}) FROM o WHERE o.id < {n}",
    "SELECT a.k, sum(100 / (a.v - 16)) FROM {d} a WHERE {c} GROUP BY 1",
    "SELECT a.k, sum(a.v) FROM {d} a WHERE {c} GROUP BY 1 HAVING 100 / (sum(a.v) - {n}) > 0",
)  # fmt: skip
# how often a function is called does not depend on the plan
_CALLS = (
    "SELECT a.id, called(a.m) FROM {d} a WHERE {p}",
    "SELECT a.k, sum(called(a.m)) FROM {d} a WHERE {p} GROUP BY 1",
    "SELECT a.k, called(max(a.m)) FROM {d} a WHERE {p} GROUP BY 1",
    "SELECT a.k, sum(a.v) FROM {d} a WHERE {p} GROUP BY 1 HAVING called(count(*)::integer) > 2",
    "SELECT called(a.m), count(*) FROM {d} a WHERE {p} GROUP BY 1",
    "SELECT count(*), sum(a.v) FROM {d} a WHERE called(a.m) > 2 AND {p}",
    "SELECT a.id FROM {d} a WHERE {p} AND called(a.m) > 2",
    "SELECT o.id, (SELECT max(called(a.m)) FROM {d} a WHERE a.k = o.k) FROM o",
    "SELECT o.id, (SELECT called(max(a.m)) FROM {d} a WHERE a.k = o.k AND {p}) FROM o",
    "SELECT o.id, (SELECT called(o.m) + max(a.m) FROM {d} a WHERE a.k = o.k) FROM o",
    "SELECT o.id FROM o WHERE (SELECT sum(called(a.m)) FROM {d} a WHERE a.k = o.k) > 3",
    "SELECT count(*) FROM o WHERE (SELECT sum(called(a.m)) FROM {d} a WHERE a.k = o.k AND {p}) > 3",
    "SELECT o.id FROM o WHERE NOT EXISTS (SELECT FROM {d} a WHERE a.k = o.k AND called(a.m) > 7 OFFSET 0)",
    "SELECT o.id, o.k = ANY (ARRAY(SELECT called(a.k) FROM {d} a WHERE a.m = o.m)) FROM o",
    "SELECT q.k, count(*), sum(q.c) FROM (SELECT a.k, called(a.m) c FROM {d} a OFFSET 0) q GROUP BY 1",
    "SELECT q.k, q.c FROM (SELECT a.k, called(a.m) c FROM {d} a WHERE {p}) q WHERE q.c > 1",
    "SELECT count(*), sum(q.c) FROM (SELECT o.id, called(o.m) c FROM o) q LEFT JOIN {d} a ON a.k = q.c",
    "SELECT o.id, q.c FROM o LEFT JOIN (SELECT a.k, max(called(a.m)) c FROM {d} a GROUP BY 1) q ON q.k = o.k",
    "SELECT o.id, q.c FROM o LEFT JOIN (SELECT a.k, called(a.m) c FROM {d} a WHERE {p}) q ON q.k = o.k",
    "SELECT u.c, count(*) FROM (SELECT called(a.m) c FROM {d} a WHERE {p} UNION ALL SELECT called(o.k) FROM o) u"
    " GROUP BY 1",
    "SELECT a.id, called(a.m) FROM {d} a WHERE {p} ORDER BY a.v, a.id LIMIT 5",
    "SELECT count(*) FROM (SELECT called(a.m) FROM {d} a LIMIT {n}) q",
    "SELECT count(*) FROM (SELECT FROM {d} a WHERE called(a.m) > 1 LIMIT 4) q",
    "SELECT a.k, a.m, sum(called(a.m)) FROM {d} a WHERE {p} GROUP BY ROLLUP (1, 2)",
    "SELECT a.id, sum(called(a.m)) OVER (ORDER BY a.id) FROM {d} a WHERE {p}",
    "SELECT called(a.m) x, a.id FROM {d} a WHERE {p} ORDER BY 1, 2",
    "WITH w AS (SELECT a.k, called(a.m) c FROM {d} a) SELECT w.k, count(*), max(w.c) FROM w GROUP BY 1",
)  # fmt: skip


class GuardedGenerator:
    """Queries that give the same rows each time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def _conditions(self, alias: str, leaky: bool) -> str:
        chance = self.chance
        terms = [*chance.sample(_OTHERS, chance.choice((0, 1, 2) if leaky else (1, 1, 2)))]
        if leaky:
            terms += chance.sample(_LEAKY, chance.choice((1, 1, 2)))
        chance.shuffle(terms)
        return " AND ".join(terms).replace("{a}", alias)

    def query(self, *, calls: bool) -> str:
        """One query; whether it calls a volatile function, and leaks nothing."""
        chance = self.chance
        return chance.choice(_CALLS if calls else _QUERIES).format(
            d=chance.choice(GUARDED),
            e=chance.choice(GUARDED),
            c=self._conditions("a", True),
            f=self._conditions("b", True),
            p=self._conditions("a", False),
            n=chance.choice((3, 20, 42, 60)),
        )

    def settings(self, role: int) -> str:
        """SETs of a role, with features forced or not."""
        chance = self.chance
        mode = chance.choice(("on", "force", "force"))
        features = ("vector_join", "vector_aggregate", "vector_scan", "memoize_subqueries", "columns", "vector_sort")
        text = "".join(f"SET pgbillion_rows.{name} = {chance.choice((mode, mode, 'on'))}; " for name in features)
        workers, memory = chance.choice((0, 0, 0, 0, 2)), chance.choice(("64kB", "4MB"))
        return (
            f"{text}SET max_parallel_workers_per_gather = {workers}; SET work_mem = '{memory}';"
            f" SET enable_nestloop = {chance.choice(('on', 'off'))}; SET ROLE sees_{role};"
        )
