"""pg_dump and pg_restore of one schema: run here, without secrets in their arguments, and ended with us."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quote
from pgbillion.common.target import Target
from pgbillion.server.client import Programs
from pgbillion.tables.worker import psql_connection

# what is of the whole database, or of others who read from it
_LEFT_OUT = ("--no-publications", "--no-subscriptions")


def to_file(
    programs: Programs,
    source: Target,
    schema: str,
    path: Path,
    *,
    form: str,
    jobs: int,
    rows: bool,
    snapshot: str | None = None,
    encoding: str | None = None,
    lock_timeout: int | None = None,
) -> None:
    """Write a schema's archive. Raises UserError with what pg_dump says; what is there then is to be removed."""
    options = ["--format", form, "--file", str(path), *(["--jobs", str(jobs)] if form == "directory" else [])]
    options += [] if rows else ["--schema-only"]
    options += [] if snapshot is None else ["--snapshot", snapshot]
    options += [] if encoding is None else ["--encoding", encoding]
    options += [] if lock_timeout is None else ["--lock-wait-timeout", str(lock_timeout)]
    with _started(programs.dump, [*_what(schema), *options], source, "pgbillion tenants export") as (process, said):
        process.wait()
        _check(process, said, "pg_dump", schema)


# pg_dump's text begins and ends with lines that are psql's, if it is of a version that knows them
_RESTRICT = re.compile(rb"((?:--[^\n]*\n|\n)*)\\restrict (\w+)\n")


# an option of columns in which minor releases since November 2026 note when the row type changed, and which their
# pg_dump does not copy
_ROW_VERSION = re.compile(rb"^ALTER [^\n]* ALTER COLUMN [^\n]* SET \([^\n]*\bpg_attver=", re.MULTILINE)
_OWN_PG_DUMP = "take the pg_dump that came with the source, or a newer one: --bindir names its directory"


def section(programs: Programs, archive: Path, name: str) -> bytes:
    """Return a section of an archive as SQL that needs no psql. Raises UserError for what other servers refuse."""
    options = ["--section", name, "--file", "-", *_LEFT_OUT]
    done = subprocess.run([programs.restore, *options, archive], capture_output=True, check=False)
    if done.returncode != 0:
        raise UserError(f"pg_restore could not read what pg_dump has written: {done.stderr.decode(errors='replace')}")
    text = done.stdout
    if found := _RESTRICT.match(text):
        before, end, after = text[found.end() :].rpartition(b"\\unrestrict " + found[2] + b"\n")
        if not end:
            raise AssertionError("a script of pg_dump has no end")
        text = found[1] + before + after
    if _ROW_VERSION.search(text):
        raise UserError(
            "this pg_dump copies pg_attver, which the server notes for itself, and others refuse", _OWN_PG_DUMP
        )
    return text


def copy(
    programs: Programs,
    source: Target,
    target: Target,
    schema: str,
    snapshot: str,
    *,
    meanwhile: Callable[[], None],
    arrived: Callable[[], None],
) -> None:
    """Copy a schema, as a snapshot sees it, into another database in one transaction.

    ``meanwhile`` is called while that goes on, and ``arrived`` once the copy is there, whatever fails besides. Raises
    UserError with what one of the programs says.
    """
    name = "pgbillion tenants move"
    options = [*_what(schema), "--format", "custom", "--compress", "0", "--snapshot", snapshot]
    restore: subprocess.Popen[bytes] | None = None
    try:
        with _started(programs.dump, options, source, name, stdout=subprocess.PIPE) as (dump, said):
            options = ["--single-transaction", "--exit-on-error", *_LEFT_OUT]
            with _started(programs.restore, options, target, name, stdin=dump.stdout) as (restore, restore_said):
                # the other one alone reads it, so that its end is noticed
                assert dump.stdout is not None
                dump.stdout.close()
                meanwhile()
                restore.wait()
                if restore.returncode != 0:
                    # a reader that has gone ends the writer; else it has ended by itself, which is the reason
                    dump.wait()
                    if dump.returncode > 0 and b"roken pipe" not in _text(said):
                        _check(dump, said, "pg_dump", schema)
                _check(restore, restore_said, "pg_restore", schema)
                dump.wait()
                _check(dump, said, "pg_dump", schema)
    finally:
        if restore is not None and restore.returncode == 0:
            arrived()


def _what(schema: str) -> list[str]:
    # in quotes nothing is a wildcard
    return ["--schema", quote(schema), "--strict-names", *_LEFT_OUT]


@contextlib.contextmanager
def _started(
    program: Path,
    options: Sequence[str],
    target: Target,
    name: str,
    *,
    stdin: IO[bytes] | int | None = subprocess.DEVNULL,
    stdout: IO[bytes] | int | None = subprocess.DEVNULL,
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Give a program that runs, and what it says; it has ended when this is over, terminated if need be."""
    arguments, environment = psql_connection(target.conninfo, name)
    # an archive is in the database's own encoding; messages are read here
    environment.pop("PGCLIENTENCODING", None)
    environment["LC_ALL"] = "C"
    with tempfile.TemporaryFile() as said:
        # Ctrl-C is for us, and we end it
        process = subprocess.Popen(
            [program, "--no-password", *options, *arguments],
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=said,
            start_new_session=True,
        )
        try:
            yield process, said
        finally:
            if process.poll() is None:
                # it cancels what the server does for it
                process.terminate()
            process.wait()


def _text(said: IO[bytes]) -> bytes:
    said.seek(0)
    return said.read()


def _check(process: subprocess.Popen[bytes], said: IO[bytes], name: str, schema: str) -> None:
    if process.returncode == 0:
        return
    lines = [line.strip() for line in _text(said).decode(errors="backslashreplace").splitlines()]
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    # the statement may be long; what explains the error is worth a line
    details = [f"({line.removeprefix('DETAIL:').strip()})" for line in lines if line.startswith("DETAIL:")]
    text = " ".join(errors[:1] + details[:1]) or (lines[-1] if lines else f"exit status {process.returncode}")
    doing = "dump" if name == "pg_dump" else "restore"
    hint = "nothing was left behind" if "pg_attver" not in text else f"nothing was left behind; {_OWN_PG_DUMP}"
    raise UserError(f"{name} could not {doing} {schema}: {text}", hint, 3)
