"""Generated queries with ORDER BY and window functions, whose answers do not depend on the order of ties."""

from __future__ import annotations

import random
from dataclasses import dataclass

# columns with ties, and NULLs where nothing else is said; h is a number of the row
COLUMNS = {
    "s": "(h % 7 - 3)::smallint",
    "i": "h % 1000 - 500",
    "b": "(h::bigint << 33) % 99999999999",
    "d": "date '2020-01-01' + h % 30",
    "ts": "timestamp '2020-01-01' + make_interval(secs => h % 5000)",
    "tz": "timestamptz '2020-01-01 00:00+00' + make_interval(secs => h % 50)",
    "f": "CASE h % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'Infinity' ELSE h % 100 / 8.0 END::float8",
    "f4": "CASE h % 11 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '-Infinity' ELSE h % 10 / 3.0 END::float4",
    "n": "CASE h % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN 1.0 WHEN 2 THEN 1.00 ELSE round(h % 100 / 10.0, 1) END::numeric",
    "m": "CASE h % 13 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN 0 WHEN 4 THEN 1e-300"
    " WHEN 5 THEN -1e400 - h % 5 ELSE (h % 2000 - 1000) * power(10::numeric, h % 60 - 30) + h % 3 END::numeric",
    "t": "repeat(chr(97 + h % 26), h % 40) || h % 3",
    "u": "(CASE WHEN h % 2 = 0 THEN 'ä' ELSE 'B' END || h % 11)",
    "w": "(CASE WHEN h % 2 = 0 THEN 'Äpfel ' ELSE 'apfel' END || h)",
    "c": "(CASE h % 3 WHEN 0 THEN 'x ' ELSE 'x' END || h % 5)::char(6)",
    "o": "h % 2 = 0",
    "id8": "md5((h % 900)::text)::uuid",
    "y": "decode(lpad(to_hex(h % 300), 4, '0') || CASE WHEN h % 2 = 0 THEN '00' ELSE '' END, 'hex')",
    "e": "(ARRAY['low', 'mid', 'high'])[1 + h % 3]::level",
    "a": "ARRAY[h % 3, h % 5]",
    "iv": "make_interval(days => h % 40, hours => h % 7)",
    "q": "(h % 13)::few",
    "k": "('k' || h % 20)::name",
    "l": "repeat('long ' || h % 50, 1000)",
}
NUMBERS = ("s", "i", "b", "n")
# of which sums do not depend on the order
EXACT = (*NUMBERS, "iv", "q")
EXTREMES = ("s", "i", "b", "d", "ts", "f", "t", "u", "e")
# that have RANGE with an offset, and offsets of theirs
OFFSETS = {
    "s": ("1", "0", "2", "300", "-1"),
    "i": ("1", "0", "50", "10000", "-2", "NULL"),
    "b": ("1", "9999999999"),
    "f": ("0.5", "'Infinity'::float8", "0", "-1"),
    "n": ("1", "0.55", "0", "'NaN'::numeric"),
    "d": ("'3 days'::interval", "'1 month'::interval", "'-1 day'::interval"),
    "ts": ("'1 hour'::interval", "'5 sec'::interval"),
    "tz": ("'10 sec'::interval",),
    "iv": ("'2 days'::interval",),
}
WHERE = ("", "", "", " WHERE i < 100", " WHERE id % 3 = 1", " WHERE id < 5", " WHERE i IS NULL", " WHERE id < 0")
DIRECTIONS = ("", "ASC", "DESC")
NULLS = ("", "NULLS FIRST", "NULLS LAST")


@dataclass(frozen=True)
class WindowQuery:
    """A query, and whether it must be planned by our nodes where they are forced."""

    text: str
    certain: bool


def make(collation: str) -> str:
    """Return the statements that make the table; the collation is another than the database's."""
    values = {**COLUMNS, "u": f"{COLUMNS['u']} COLLATE {collation}"}
    columns = ", ".join(
        f"CASE WHEN hashint4extended(g, {n}) % 8 <> 0 THEN {text} END AS {name}"
        for n, (name, text) in enumerate(values.items())
    )
    return (
        "CREATE TYPE level AS ENUM ('low', 'mid', 'high'); CREATE DOMAIN few AS integer CHECK (VALUE < 100);"
        f" CREATE TABLE t AS SELECT g AS id, {columns} FROM (SELECT g, abs(hashint4(g) % 100000) AS h"
        " FROM generate_series(1, 1500) g) s; ANALYZE t"
    )


class Generator:
    """Queries over the table, by chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.fails = False  # one function that may fail is enough: which error comes first is open

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def key(self, name: str) -> str:
        return f"{name} {self.chance.choice(DIRECTIONS)} {self.chance.choice(NULLS)}".strip()

    def keys(self, most: int) -> list[str]:
        names = self.chance.sample([*COLUMNS], self.chance.randint(1, most))
        if self.maybe(0.1):
            names[0] = self.chance.choice(("i % 10", "lower(t)", "-i", "t || u", "n * 2", "coalesce(s, 0)"))
        return [self.key(name) for name in names]

    def where(self) -> str:
        return self.chance.choice(WHERE)

    # ---- windows ----

    def frame(self, keys: list[str], total: bool) -> tuple[str, bool]:
        """Return a frame, and whether it may be computed by us."""
        column = keys[0].split()[0] if len(keys) == 1 else ""
        modes = ["", "RANGE"] + (["GROUPS"] if keys else []) + (["ROWS"] * 3 if total else [])
        mode = self.chance.choice(modes)
        if mode == "":
            return "", True
        before = ["UNBOUNDED PRECEDING", "CURRENT ROW"]
        after = ["CURRENT ROW", "UNBOUNDED FOLLOWING"]
        if mode in ("ROWS", "GROUPS"):
            n = ["0", "1", "2", "7", "3000", "9223372036854775807"] + (["-1", "NULL"] if self.maybe(0.1) else [])
            before += [f"{self.chance.choice(n)} PRECEDING", f"{self.chance.choice(n)} FOLLOWING"]
            after += [f"{self.chance.choice(n)} PRECEDING", f"{self.chance.choice(n)} FOLLOWING"]
        elif column in OFFSETS:
            offsets = OFFSETS[column]
            before += [f"{self.chance.choice(offsets)} PRECEDING", f"{self.chance.choice(offsets)} FOLLOWING"] * 2
            after += [f"{self.chance.choice(offsets)} PRECEDING", f"{self.chance.choice(offsets)} FOLLOWING"] * 2
        start, end = self.chance.choice(before), self.chance.choice(after)
        if end.endswith("PRECEDING") and not start.endswith("PRECEDING"):
            start = "UNBOUNDED PRECEDING"
        if start.endswith("FOLLOWING") and not end.endswith("FOLLOWING"):
            end = "UNBOUNDED FOLLOWING"
        text = f"{mode} BETWEEN {start} AND {end}"
        if self.maybe(0.05):
            return f"{text} EXCLUDE {self.chance.choice(('CURRENT ROW', 'TIES', 'GROUP'))}", False
        return text, True

    def filter(self) -> str:
        return self.chance.choice((" FILTER (WHERE i > 0)", " FILTER (WHERE id % 2 = 0)")) if self.maybe(0.15) else ""

    def aggregate(self, total: bool) -> str:
        exact = self.chance.choice(EXACT)
        choices = [
            "count(*)", f"count({self.chance.choice([*COLUMNS])})", f"sum({exact})", f"sum({exact})",
            f"avg({exact})", f"sum({self.chance.choice(NUMBERS)} * 2)", f"count(i + {self.chance.choice(NUMBERS)})",
            f"{self.chance.choice(('min', 'max'))}({self.chance.choice(EXTREMES)})",
            "bool_and(o)", "bit_or(i)", "stddev(i)", "var_pop(n)", "every(i > 0)",
        ]  # fmt: skip
        if total:
            choices += ["sum(f)", "avg(f4)", "array_agg(s)", "string_agg(u, ',')", "stddev(f)", "corr(i, s)", "sum(f4)"]
        if not self.fails and self.maybe(0.04):
            self.fails = True
            return "sum(100 / s)"
        return self.chance.choice(choices) + self.filter()

    def function(self, total: bool) -> str:
        places = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
        if not total:
            return self.chance.choice(places)
        column = self.chance.choice([*COLUMNS])
        if not self.fails and self.maybe(0.06):
            self.fails = True
            return self.chance.choice(("ntile(s)", f"nth_value({column}, s)", "ntile(-1)"))
        column = "i * 2" if self.maybe(0.1) else column
        return self.chance.choice(
            [
                *places, "row_number()", "row_number()", f"ntile({self.chance.choice((1, 3, 4, 100, 5000, 'NULL'))})",
                f"lag({column})", f"lead({column})", f"lag({column}, 3)", f"lead({column}, -1)", f"lag({column}, s)",
                "lag(i, 2, 77)", "lead(t, i, 'none'::text)", f"first_value({column})", f"last_value({column})",
                f"nth_value({column}, 3)", f"lead({column}, -2147483648)",
            ]
        )  # fmt: skip

    def window(self) -> tuple[str, bool, bool]:
        """Return a window, whether its order has no ties, and whether it is for us."""
        total = self.maybe(0.6)
        partition = (
            self.chance.sample([*COLUMNS, "i % 7", "id % 50"], self.chance.randint(1, 2)) if self.maybe(0.7) else []
        )
        order = self.keys(2) if self.maybe(0.7) else []
        order += ["id" + self.chance.choice(("", " DESC"))] if total else []
        frame, certain = self.frame(order, total)
        return (
            (f"PARTITION BY {', '.join(partition)} " if partition else "")
            + (f"ORDER BY {', '.join(order)} " if order else "")
            + frame,
            total,
            certain,
        )

    def windows(self) -> WindowQuery:
        """A query of one to three windows."""
        self.fails = False
        certain = True
        shown = []
        windows = [self.window() for _ in range(self.chance.choice((1, 1, 2, 3)))]
        for n, (text, total, ours) in enumerate(windows):
            certain &= ours
            if self.maybe(0.3) and " BETWEEN " not in text:
                # another window of the same order
                windows.append((text.split("ORDER BY")[0] if self.maybe(0.5) else text, False, ours))
            for m in range(self.chance.randint(1, 3)):
                function = self.aggregate(total) if self.maybe(0.5) else self.function(total)
                shown.append(f"{function} OVER w{n} AS r{n}_{m}")
        names = ", ".join(f"w{n} AS ({text})" for n, (text, _, _) in enumerate(windows))
        columns = ", ".join(["id", *self.chance.sample([*COLUMNS], self.chance.randint(0, 4)), *shown])
        query = f"SELECT {columns} FROM t{self.where()} WINDOW {names}"
        shape = self.chance.randrange(13)
        if shape == 12:
            # run conditions of windows of several orders
            three = self.chance.sample([*COLUMNS], 3)
            query = (
                f"SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY {three[0]} ORDER BY id) AS a,"
                f" count(*) OVER (PARTITION BY {three[1]} ORDER BY id ROWS UNBOUNDED PRECEDING) AS b,"
                f" rank() OVER (PARTITION BY {three[0]} ORDER BY {three[2]}) AS c, count(id) OVER (ORDER BY id) AS d,"
                f" ntile(3) OVER (PARTITION BY {three[1]} ORDER BY id) AS e FROM t{self.where()}) x"
                f" WHERE a < {self.chance.choice((2, 30))} AND b <= {self.chance.choice((3, 50))}"
                f"{self.chance.choice((' AND c < 20', '', ' AND d < 700', ' AND e < 2'))} ORDER BY id"
            )
        elif shape == 0:
            # a run condition
            query = (
                f"SELECT * FROM (SELECT *, {self.chance.choice(('row_number()', 'rank()', 'count(*)'))}"
                f" OVER (PARTITION BY {self.chance.choice([*COLUMNS])} ORDER BY id) AS n FROM ({query}) x) y"
                f" WHERE n <= {self.chance.choice((1, 3, 10))} ORDER BY id"
            )
        elif shape == 1:
            query = f"SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ({query}) x) y WHERE n < 5"
        elif shape == 2:
            query = (
                f"SELECT g, y.* FROM generate_series(1, 3) g, LATERAL (SELECT * FROM ({query}) x"
                " WHERE id % 3 < g OFFSET 0) y ORDER BY g, id"
            )
        elif shape == 3:
            query = f"WITH x AS ({query}) SELECT * FROM x ORDER BY id DESC"
        else:
            query += " ORDER BY id"
        return WindowQuery(query, certain and "EXCLUDE" not in query)

    def groups(self) -> WindowQuery:
        """Windows over groups."""
        key = self.chance.choice(("s", "i % 20", "d", "u", "e", "o", "t"))
        other = self.chance.choice(("o", "e", "id % 4"))
        return WindowQuery(
            f"SELECT {key} AS g, {other} AS o2, sum(i) AS s,"
            f" rank() OVER (PARTITION BY {other} ORDER BY sum(i) DESC, {key}),"
            f" sum(sum(i)) OVER (PARTITION BY {key}), avg(count(*)) OVER (ORDER BY {key}),"
            f" lag(count(*)) OVER (ORDER BY {key}, {other}) FROM t{self.where()} GROUP BY 1, 2 ORDER BY 1, 2",
            True,
        )

    def sort(self) -> WindowQuery:
        """ORDER BY: what is shown does not depend on the order of ties."""
        keys = self.keys(4)
        total = self.maybe(0.5)
        names = [key.split()[0] if not any(sign in key for sign in "%(|*-+") else key for key in keys]
        plain = all(name in COLUMNS for name in names)
        if total or not plain:
            keys.append("id" + self.chance.choice(("", " DESC")))
            shown = self.chance.choice(("*", "id", "id, t, l", "id, ctid", "id, t AS row, i + 1"))
        else:
            # values that are equal need not look the same
            shown = ", ".join(
                name if name not in ("n", "m", "f", "f4", "c", "iv") else f"{name} = {name}" for name in names
            )
        query = f"SELECT {shown} FROM t{self.where()} ORDER BY {', '.join(keys)}"
        shape = self.chance.randrange(8)
        if shape == 0 and (total or not plain) and "ctid" not in shown:
            query = (
                f"SELECT g, y.* FROM generate_series(1, 3) g, LATERAL (SELECT id, t FROM t WHERE id % 3 < g"
                f" ORDER BY {', '.join(keys)} OFFSET 1) y"
            )
        return WindowQuery(query, True)

    def query(self) -> WindowQuery:
        """Any of these."""
        return self.chance.choices((self.windows, self.sort, self.groups), (6, 3, 1))[0]()
