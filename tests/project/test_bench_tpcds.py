"""What `make bench-tpcds` takes for the same answer, for a query that does not finish, and for a query that loses.

`test_benchmarks.py` runs it on real tables.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pgbillion.common.connection import Connection

BENCH = Path(__file__).parents[2] / "bench"
Rows = list[list[str | None]]

# five rows in the order of the first column, of which four fit: the last two of them tie with the fifth
ALL: Rows = [["1", "a"], ["2", "b"], ["3", "c"], ["3", "d"], ["3", "e"]]


@pytest.fixture
def tpcds(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCH)
    import tpcds

    yield tpcds
    for name in [name for name, module in sys.modules.items() if str(BENCH) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def with_ties(rows: int | None) -> Rows:
    last = ALL[(rows or 4) - 1][0]
    return [row for row in ALL if str(row[0]) <= str(last)]


def no_limit(_: int | None) -> None:
    return None


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ALL[:4], True),
        ([*ALL[:2], ALL[4], ALL[2]], True),
        ([["1.0000000000001", "a"], ALL[1], ALL[4], ALL[3]], True),
        (ALL[:3], False),
        # a row that is no row of the query
        ([*ALL[:3], ["3", "f"]], False),
        # a row that does not tie was left out
        ([ALL[0], ALL[2], ALL[3], ALL[4]], False),
        ([["1.01", "a"], *ALL[1:4]], False),
        # twice the same of which there is one
        ([*ALL[:3], ALL[2]], False),
    ],
)
def test_rows_that_tie_at_the_limit_are_any_of_them(tpcds: Any, other: Rows, same: bool) -> None:
    found = tpcds.differs(ALL[:4], other, tpcds.duck.close, with_ties)
    assert (found is None) == same, found


def test_without_a_limit_nothing_ties(tpcds: Any) -> None:
    assert tpcds.differs(ALL[:4], list(reversed(ALL[:4])), tpcds.duck.close, no_limit) is None
    assert tpcds.differs(ALL[:4], [*ALL[:3], ALL[4]], tpcds.duck.close, no_limit) is not None


def test_a_query_past_the_limit_is_unfinished(tpcds: Any, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpcds, "LIMIT", 0.05)
    assert tpcds.run(conn, "SELECT pg_sleep(600)") is None
    answer = tpcds.run(conn, "SELECT 1")
    assert answer is not None
    assert answer.rows == [(b"1",)]
    # and what is not limited takes its time
    assert conn.execute("SHOW statement_timeout").fetchone() == ("0",)


def found(tpcds: Any, core: float | None, heap: float | None, columns: float | None) -> Any:
    """What was measured: seconds, None where a side did not finish."""
    seconds = dict(zip([side.name for side in tpcds.SIDES], (core, heap, columns), strict=True))
    result = tpcds.Result(tpcds.Query("q1", "SELECT 1"), 1)
    result.plans = {name: name for name in seconds}
    result.times = {name: [] if one is None else [one] for name, one in seconds.items()}
    unfinished = [name for name, one in seconds.items() if one is None]
    return tpcds.Found(result, 1, unfinished, dict.fromkeys(result.plans, 1.5), [0.5])


def test_who_loses(tpcds: Any) -> None:
    assert not found(tpcds, 1, 1, 0.5).loses()
    assert found(tpcds, 1, 0.5, 2).loses()
    assert found(tpcds, None, None, 1).loses()
    assert not found(tpcds, None, 1, 1).loses()


def test_line_for_programs(tpcds: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpcds, "LIMIT", 10)
    tpcds.report([found(tpcds, 1, 0.5, 0.25), found(tpcds, 2, None, 4), found(tpcds, None, None, 1)], {"scale": 1})
    values = json.loads(capsys.readouterr().out)
    # a query that we do not finish is as slow as the limit, and one that PostgreSQL does not finish has no ratio
    assert values["tpcds_lowest"] == {"heap": 0.2, "columns": 0.5}
    assert values["tpcds_geomean"] == {"heap": 0.63, "columns": 1.41}
    assert values["tpcds_unfinished"] == {"PostgreSQL": ["q1"], "heap": ["q1", "q1"], "columns": []}
    assert values["tpcds_duckdb"] == 2.83
    assert values["plan_ms"] == {"PostgreSQL": 4.5, "heap": 4.5, "columns": 4.5}
    assert values["plan_ratio"] == {"heap": 1.0, "columns": 1.0}


def test_plans_of_losers_are_saved(tpcds: Any, conn: Connection, tmp_path: Path) -> None:
    loser, winner, late = (found(tpcds, *seconds) for seconds in ((1, 0.5, 2), (1, 1, 1), (None, None, 1)))
    for one, key in ((winner, "q2"), (late, "q3")):
        one.result.query = tpcds.Query(key, "SELECT 1")
    conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
    tpcds.save_plans(conn, [loser, winner, late], tmp_path / "plans")
    ran = {file.stem: "actual time" in file.read_text(encoding="utf-8") for file in (tmp_path / "plans").iterdir()}
    assert ran == {
        **{f"q1-{side.name}": True for side in tpcds.SIDES},
        "q3-PostgreSQL": False,
        "q3-heap": False,
        "q3-columns": True,
    }
