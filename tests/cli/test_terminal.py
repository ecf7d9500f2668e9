"""What people are told, and how it looks on a terminal."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from pgbillion.cli.terminal import say
from pgbillion.common import text
from pgbillion.common.meter import _Meter
from pgbillion.durability import warning
from pgbillion.durability.profiles import WAL_DIR_RISK, Profile
from pgbillion.durability.record import Record, Wal


class Gone(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_listening_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Gone())
        say("putting things back")


@pytest.mark.parametrize("width", [80, 200])
def test_a_meter_shows_all_of_its_line(width: int) -> None:
    meter = _Meter(5_000_000, "rows loaded")
    meter.update(1_400_000)
    shown = io.StringIO()
    Console(file=shown, width=width).print(meter)
    bar, *lines = shown.getvalue().splitlines()
    assert len(bar) == width
    words = " ".join(" ".join(lines).split())
    assert "1,400,000 of 5,000,000 rows loaded (28.0%)" in words
    assert ", left " in words
    assert "…" not in words


def test_what_is_said_of_a_window_that_takes_nothing_off() -> None:
    def said(*, machine: bool, wal: Wal | None = None) -> str:
        return warning.text(Record("id", Profile.FULL, "today", None, "", machine, False, wal=wal))

    assert said(machine=False).startswith("note: a durability window is open (profile full, since today); ")
    assert "may not be on disk yet; " in said(machine=True)
    assert WAL_DIR_RISK in said(machine=True, wal=Wal("/dev/shm/wal", volatile=True))


def test_nouns() -> None:
    assert text.many(1, "table") == "1 table"
    assert text.many(0, "table") == "0 tables"
    assert text.many(2_000, "process") == "2,000 processes"


def test_numbers_of_three_digits() -> None:
    shown = {6.494: "6.49", 99.96: "100", 173.2: "173", 25_689.4: "25,689", 999_600: "1 M", 52_540_115: "52.5 M"}
    shown |= {999_600_000: "1 bn", 1_128_119_137: "1.13 bn", 1_431_650_000_000: "1,432 bn"}
    assert {value: text.brief(value) for value in shown} == shown
    ratios = {0.434: "0.43", 0.96: "1.0", 9.96: "10.0", 99.6: "100", 216.3: "216"}
    assert {value: text.ratio(value) for value in ratios} == ratios
