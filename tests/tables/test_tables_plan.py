"""The arithmetic of a run: ranges, batches, names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.tables.names import MAX_NUMBER, NameFormat
from pgbillion.tables.plan import LADDER, Method, Plan, Share, count_from, parse_count, tablespace_names

FORMATS = st.builds(
    "{}%{}{}{}{}".format,
    st.sampled_from(["_", "t", "a.b*", "", "été(", "[x]{2}\\"]),
    st.sampled_from(["", "0"]),
    st.sampled_from(["", "1", "3", "8", "17"]),
    st.sampled_from("doxX"),
    st.sampled_from(["", "_z", "$", "+"]),
)


def plan(count: int = 100, workers: int = 2, batch: int = 10, **more: object) -> Plan:
    values = {"method": Method.SQL, "schema": "public", "columns": "i integer", **more}
    return Plan(count=count, workers=workers, batch=batch, **values)  # type: ignore[arg-type]


@given(st.integers(1, 10**12), st.integers(1, 64), st.integers(0, 10**9))
def test_shares_cover_the_range_exactly(count: int, workers: int, first: int) -> None:
    shares = plan(count, workers, first=first).shares()
    assert [share.worker for share in shares] == list(range(workers))
    at = first
    for share in shares:
        assert share.first == at
        at += share.count
    assert at == first + count
    assert max(share.count for share in shares) - min(share.count for share in shares) <= 1


@given(st.integers(0, 5000), st.integers(1, 700), st.data())
def test_batches_cover_what_is_left_exactly(count: int, size: int, data: st.DataObject) -> None:
    done = data.draw(st.integers(0, count))
    share = Share(0, 1000, count)
    at = 1000 + done
    for batch in share.batches(size, done):
        assert batch.first == at
        assert 1 <= batch.count <= size
        assert (
            (batch.first - share.first) // size == batch.number == (batch.first + batch.count - 1 - share.first) // size
        )
        at += batch.count
    assert at == 1000 + count


@given(st.integers(1, 40), st.integers(1, 40))
def test_resumed_batches_keep_their_tablespaces(workers: int, spaces: int) -> None:
    whole = plan(2000, workers, 10, tablespaces=tablespace_names(max(workers, spaces)))
    share = whole.shares()[-1]
    fresh = {batch.number: whole.tablespace(share.worker, batch.number) for batch in share.batches(10)}
    for batch in share.batches(10, done=share.count // 3):
        assert whole.tablespace(share.worker, batch.number) == fresh[batch.number]
        rotated = whole.rotated_tablespaces(share.worker, batch.number)
        assert rotated is not None
        assert rotated[0] == fresh[batch.number]
        assert sorted(rotated) == sorted(whole.tablespaces)


@given(FORMATS, st.integers(0, 10**7), st.integers(1, 3000))
def test_names_are_those_of_printf_and_segments_find_them_all(pattern: str, first: int, count: int) -> None:
    names = NameFormat.parse(pattern)
    made = [names(number) for number in range(first, first + count)]
    assert made == [pattern % number for number in range(first, first + count)]
    assert len(set(made)) == count
    at = first
    for segment in names.segments(first, count):
        assert segment.first == at
        inside = [names(number) for number in range(segment.first, segment.last + 1)]
        encoded = [name.encode() for name in inside]
        assert encoded == sorted(encoded)
        assert inside[0] == segment.low
        assert inside[-1] == segment.high
        assert all(re.fullmatch(segment.pattern[1:-1], name) for name in inside)
        at = segment.last + 1
    assert at == first + count


def test_plan_survives_json() -> None:
    one = plan(tablespaces=tablespace_names(3), template="public.t", columns=None, method=Method.BULK)
    assert Plan.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("t", "no number"),
        ("100%%", "no number"),
        ("%d%d", "more than one"),
        ("%s", "cannot be used"),
        ("%-8d", "cannot be used"),
        ("%.3d", "cannot be used"),
        ("t%", "begins no number"),
        ("%08 x", "cannot be used"),
    ],
)
def test_bad_formats(pattern: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        NameFormat.parse(pattern)


def test_percent_sign() -> None:
    assert NameFormat.parse("100%%_%03x%%")(10) == "100%_00a%"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "at least 1, not 0"),
        ({"count": -5}, "at least 1, not -5"),
        ({"first": -1}, "must not be negative"),
        ({"first": MAX_NUMBER, "count": 2}, "beyond 64 bits"),
        ({"name_format": "x" * 60 + "%04d"}, "64 bytes long"),
        ({"name_format": "%0100d"}, "100 bytes long"),
        ({"name_format": "é" * 31 + "%d", "count": 11, "first": 10}, "64 bytes long"),
        ({"workers": 0}, "number of jobs must be between"),
        ({"workers": 101}, "101 workers for 100 tables"),
        ({"batch": 0}, "batch must be at least 1"),
        (
            {"workers": 4, "tablespaces": tablespace_names(3)},
            r"number of tablespaces \(3\) should be equal to or greater",
        ),
        ({"template": "t"}, "either --template or --columns"),
    ],
)
def test_plans_that_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(**{"count": 100, **changes}).check()  # type: ignore[arg-type]


def test_63_bytes_are_enough() -> None:
    plan(name_format="x" * 62 + "%d", count=10, first=0).check()


def test_ladder_and_counts() -> None:
    assert LADDER["BTP"] == 1_000_000_000
    assert count_from(None, "mmt") == 1_000_000
    assert count_from(7, None) == 7
    assert tablespace_names(3) == ("_000", "_001", "_002")
    assert [parse_count(given) for given in ("12", "1_000", "1,000,000", "5k", "2M", "-3")] == [
        12, 1000, 1_000_000, 5000, 2_000_000, -3,
    ]  # fmt: skip
    for both in ((None, None), (1, "S")):
        with pytest.raises(UserError, match="either --count or --type"):
            count_from(*both)
    with pytest.raises(UserError, match="no database type"):
        count_from(None, "XXL")
    with pytest.raises(UserError, match="not a number"):
        parse_count("many")


def test_numbers_for_people() -> None:
    assert [text.size(value) for value in (0, 999, 1000, 2_625, 999_499, 999_600, 2.6e12)] == [
        "0 bytes", "999 bytes", "1.0 kB", "2.6 kB", "999.5 kB", "999.6 kB", "2.6 TB",
    ]  # fmt: skip
    assert [text.duration(value) for value in (0.00035, 0.5, 12.34, 59.99, 185, 121_320, 1_000_000)] == [
        "0.35 ms", "500 ms", "12.3 s", "1 min 0 s", "3 min 5 s", "33 h 42 min", "11 d 14 h",
    ]  # fmt: skip
