"""`pgbillion server …`, run as a user runs it, against real servers in state folders of their own."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import root, servers
from pgbillion import __version__
from pgbillion.cli import server as cli_server
from pgbillion.common import paths
from pgbillion.server import embedded, files, postgres
from pgbillion.server.extension import read_pg_config
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.shards.servers import of_embedded

PUT_BACK = " -m pgbillion server start"
as_root = root.as_root("is about servers started by root")


@dataclass
class Program:
    """The command line with a state folder of its own."""

    state: Path
    pg_config: Path

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        env |= {"PGBILLION_STATE": str(self.state), "NO_COLOR": "1", **variables}
        return subprocess.run(
            [sys.executable, "-m", "pgbillion", *map(str, arguments)],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *arguments: str | Path, **variables: str) -> str:
        done = self.run(*arguments, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def fails(self, status: int, error: str, hint: str, *arguments: str | Path, **variables: str) -> None:
        """Expect an `error:` line with the one text, a `hint:` line with the other, and nothing else."""
        done = self.run(*arguments, **variables)
        lines = done.stderr.splitlines()
        assert len(lines) == 2, done.stderr
        assert lines[0].startswith("error: ")
        assert error in lines[0]
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]
        assert (done.returncode, done.stdout) == (status, "")

    def start(self) -> str:
        return self.ok("server", "start", "--pg-config", self.pg_config)

    @property
    def cluster(self) -> Cluster:
        found = embedded.find(self.state)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def folder(installation: Installation) -> Iterator[Path]:
    with servers.temporary_folder() as folder:
        # the copy of the installation is the one all tests use
        (folder / "postgresql").symlink_to(paths.state_dir() / "postgresql")
        yield folder


@pytest.fixture(scope="module")
def made(folder: Path, installation: Installation) -> Iterator[Program]:
    """A state folder with a server in it, running or not."""
    program = Program(folder, installation.source)
    program.start()
    yield program
    program.cluster.destroy()


@pytest.fixture
def running(made: Program) -> Program:
    made.cluster.start()
    return made


@pytest.fixture
def stopped(made: Program) -> Program:
    made.cluster.stop("immediate")
    return made


@pytest.fixture
def empty(installation: Installation) -> Iterator[Program]:
    """A state folder with nothing in it but the copy of the installation."""
    with servers.temporary_folder() as folder:
        (folder / "postgresql").symlink_to(paths.state_dir() / "postgresql")
        yield Program(folder, installation.source)


def test_a_second_start_finds_it_running(running: Program) -> None:
    pid = running.cluster.data.joinpath("postmaster.pid").read_text()
    assert "already running" in running.start()
    assert running.cluster.data.joinpath("postmaster.pid").read_text() == pid


@pytest.mark.quick
def test_stop_and_start_again(running: Program) -> None:
    assert running.ok("server", "stop") == "stopped\n"
    assert running.ok("server", "stop") == "not running\n"
    assert not running.cluster.running()
    # the PostgreSQL it was made with is remembered
    assert f"PostgreSQL {running.cluster.installation.version} started" in running.ok("server", "start")


def test_the_option_comes_before_the_environment(running: Program) -> None:
    state = json.loads(
        running.ok("server", "status", "--json", "--state-dir", running.state, PGBILLION_STATE="/nowhere")
    )
    assert state["running"] is True


@pytest.mark.quick
def test_status(running: Program) -> None:
    report = json.loads(running.ok("server", "status", "--json"))
    cluster = running.cluster
    assert report["running"] is True
    assert report["version"] == cluster.installation.version
    assert report["data"] == str(cluster.data)
    assert report["socket_dir"] == str(cluster.socket_dir)
    both = {"version": __version__, "library": __version__}
    assert report["extensions"] == {"pgbillion_tables": both, "pgbillion_rows": both}
    assert report["not_durable"] == {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    assert report["size_complete"] is True
    assert report["size"] > 10_000_000
    text = running.ok("server", "status")
    assert "running" in text
    assert "fsync = off" in text
    assert report["conninfo"] in text


def test_servers_of_shards_are_named_and_stopped(running: Program) -> None:
    made = running.run("shards", "create", "-n", "1", "-r", "1000")
    assert made.returncode == 0, made.stderr
    (shard,) = of_embedded(running.state)
    done = running.run("server", "stop")
    assert (done.returncode, done.stdout) == (0, "stopped\n")
    note = "note: 1 server of shards still running; to stop: "
    assert done.stderr.startswith(note)
    assert shard.running()
    words = shlex.split(done.stderr.removeprefix(note))
    # the command that is named, which works without the server
    assert running.ok(*words[words.index("server") :]) == "not running\n1 server of shards stopped\n"
    assert not shard.running()
    assert running.ok("server", "stop") == "not running\n"
    running.ok("server", "start")
    assert running.run("shards", "start").stdout == "1 started\n"
    assert running.run("shards", "destroy", "--yes").returncode == 0


def test_status_of_a_stopped_server(stopped: Program) -> None:
    report = json.loads(stopped.ok("server", "status", "--json"))
    assert report["running"] is False
    assert report["conninfo"] is None
    assert "stopped" in stopped.ok("server", "status")


@pytest.mark.quick
def test_psql_takes_all_further_arguments(running: Program) -> None:
    query = "SELECT current_database(), current_user, inet_server_addr() IS NULL"
    assert running.ok("server", "psql", "-At", "-c", query) == "billion|postgres|t\n"
    assert running.ok("server", "psql", "-XAt", "-d", "postgres", "-c", "SELECT current_database()") == "postgres\n"
    assert running.ok("server", "psql", "-Xqt", PGSERVICE="elsewhere", PGHOST="elsewhere") == ""


def test_psql_status_is_passed_on(running: Program) -> None:
    done = running.run("server", "psql", "-X", "-c", "SELECT 1/0")
    assert (done.returncode, done.stderr) == (1, "ERROR:  division by zero\n")


def test_psql_without_a_server(stopped: Program) -> None:
    stopped.fails(2, "the embedded server in", "pgbillion server start", "server", "psql")


def test_settings_are_for_mass_loading(running: Program) -> None:
    wanted = {
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "autovacuum": "off",
        "autovacuum_freeze_max_age": "2000000000",
        "listen_addresses": "",
    }
    with running.cluster.connect() as conn:
        rows = conn.execute(
            "SELECT name, setting, sourcefile FROM pg_settings WHERE name = ANY (%s)", [list(wanted)]
        ).fetchall()
    assert {name: setting for name, setting, _ in rows} == wanted
    assert {file for name, _, file in rows if name != "listen_addresses"} == {str(running.cluster.conf)}


def test_the_users_settings_are_kept(stopped: Program) -> None:
    conf = stopped.cluster.conf
    before = conf.read_text()
    conf.write_text(before.replace("fsync = off", "fsync = on"))
    stopped.start()
    report = json.loads(stopped.ok("server", "status", "--json"))
    assert report["not_durable"] == {"full_page_writes": "off", "synchronous_commit": "off"}
    stopped.ok("server", "stop")
    conf.write_text(before)


def test_start_after_a_crash(running: Program) -> None:
    running.cluster.kill()
    assert not running.cluster.running()
    assert running.cluster.data.joinpath("postmaster.pid").exists()
    assert "started" in running.start()


@pytest.mark.parametrize("written", ["", "12345\n"])
def test_start_after_a_crash_while_the_lock_files_were_written(running: Program, written: str) -> None:
    """PostgreSQL itself refuses to start while one is empty."""
    running.cluster.kill()
    (running.cluster.data / "postmaster.pid").write_text(written)
    assert not running.cluster.running()
    assert "started" in running.start()


def test_a_pid_that_belongs_to_another_process_by_now(running: Program) -> None:
    """PostgreSQL itself refuses to start when that process is its own user's."""
    owner = running.cluster.data.stat()
    file = running.cluster.data / "postmaster.pid"
    lines = file.read_text().split("\n", 1)
    running.cluster.kill()
    with subprocess.Popen(["sleep", "600"], user=owner.st_uid if os.geteuid() == 0 else None, cwd="/") as other:
        try:
            file.write_text(f"{other.pid}\n{lines[1]}")
            assert not running.cluster.running()
            assert running.ok("server", "stop") == "not running\n"
            assert "started" in running.start()
        finally:
            other.kill()


def test_initdb_in_the_middle(running: Program) -> None:
    """Its backends write their pid with a minus; Ctrl-C then has to clear up all the same."""
    file = running.cluster.data / "postmaster.pid"
    lines = file.read_text().split("\n", 1)
    running.cluster.kill()
    file.write_text(f"-{os.getpid()}\n{lines[1]}")
    assert not running.cluster.running()
    assert "started" in running.start()


def test_an_initdb_that_was_killed(empty: Program) -> None:
    data = empty.state / "data"
    data.mkdir(parents=True)
    # the first file that it writes
    (data / "PG_VERSION").write_text("18\n")
    try:
        assert " started: " in empty.run("server", "start", "--pg-config", empty.pg_config).stdout
    finally:
        empty.run("server", "destroy", "--yes")


def test_an_initdb_that_is_interrupted_leaves_nothing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = postgres.run_as_server

    def interrupted(command: list[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
        if Path(command[0]).name != "initdb":
            return run(command, **options)
        (Path(command[2]) / "PG_VERSION").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(postgres, "run_as_server", interrupted)
    with servers.temporary_folder() as folder:
        cluster = Cluster(installation, folder / "data", folder / "run")
        with pytest.raises(KeyboardInterrupt):
            cluster.init()
        assert not cluster.data.exists()


def test_kill_leaves_no_process(running: Program) -> None:
    with running.cluster.connect() as conn:
        backend = psutil.Process(conn.info.backend_pid)
        running.cluster.kill()
        assert not backend.is_running() or backend.status() == psutil.STATUS_ZOMBIE


def test_a_server_that_cannot_start(stopped: Program) -> None:
    conf = stopped.cluster.conf
    before = conf.read_text()
    conf.write_text(before + "no_such_setting = 1\n")
    stopped.fails(2, "did not start", str(stopped.cluster.log), "server", "start")
    conf.write_text(before)


def test_data_of_another_major(stopped: Program) -> None:
    file = stopped.cluster.data / "PG_VERSION"
    before = file.read_text()
    file.write_text("14\n")
    stopped.fails(1, "is a data directory of PostgreSQL 14", "--pg-config", "server", "start")
    file.write_text(before)


def test_extension_of_another_version(running: Program) -> None:
    with running.cluster.connect(embedded.DATABASE) as conn:
        conn.execute("UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'pgbillion_tables'")
    running.fails(3, "is version 0.0,", "pgbillion extension upgrade", "server", "start")
    with running.cluster.connect(embedded.DATABASE) as conn:
        conn.execute("UPDATE pg_extension SET extversion = %s WHERE extname = 'pgbillion_tables'", [__version__])


def test_a_dropped_database_is_made_again(running: Program) -> None:
    with running.cluster.connect() as conn:
        conn.execute("DROP DATABASE billion")
    running.fails(2, 'database "billion" does not exist', "", "server", "status")
    running.start()
    assert running.ok("server", "psql", "-XAt", "-c", "SELECT pgbillion_tables.version()") == f"{__version__}\n"


def test_a_session_that_cannot_load_a_library(running: Program) -> None:
    """Sessions end at once where the file is gone: what is said is not that a database is missing."""
    with running.cluster.connect() as conn:
        conn.execute("ALTER DATABASE billion SET session_preload_libraries = 'removed/pgbillion_rows'")
        for arguments in (("server", "status"), ("extension", "status"), ("server", "start")):
            done = running.run(*arguments)
            assert done.returncode == 2
            assert 'could not access file "removed/pgbillion_rows"' in done.stderr
            assert done.stderr.splitlines()[-1].endswith("put it back: " + shlex.quote(sys.executable) + PUT_BACK)
        conn.execute("ALTER DATABASE billion RESET session_preload_libraries")


@pytest.mark.quick
def test_destroy_asks(running: Program) -> None:
    running.fails(1, "not removing", "--yes", "server", "destroy")
    assert running.cluster.running()


def test_destroy(empty: Program) -> None:
    with servers.temporary_folder() as elsewhere:
        location = elsewhere / "space"
        location.mkdir()
        empty.start()
        cluster = empty.cluster
        if os.geteuid() == 0:
            owner = cluster.data.stat()
            os.chown(location, owner.st_uid, owner.st_gid)
        with cluster.connect() as conn:
            conn.execute(f"CREATE TABLESPACE space LOCATION '{location}'".encode())
            conn.execute("CREATE TABLE t (i integer) TABLESPACE space")
        (empty.state / "runs").mkdir()
        (empty.state / "notes").write_text("not ours")
        said = empty.ok("server", "destroy", "--yes")
        assert said == f"removed: the server in {empty.state}; what else is there stays: notes, runs\n"
        assert list(location.iterdir()) == []
        assert sorted(path.name for path in empty.state.iterdir()) == ["notes", "runs"]
        assert (paths.state_dir() / "postgresql").is_dir()
    assert not cluster._processes()
    (empty.state / "runs").rmdir()
    said = empty.ok("server", "destroy", "--yes", "--everything")
    assert said == f"nothing of a server is in {empty.state}\n"
    (empty.state / "notes").unlink()
    assert empty.ok("server", "destroy", "--yes", "--everything") == f"removed: {empty.state}\n"
    assert not empty.state.exists()
    empty.ok("server", "destroy", "--yes")


def test_destroy_without_a_server(empty: Program) -> None:
    """What it has not removed, it does not claim to have."""
    (empty.state / "notes").write_text("not ours")
    (empty.state / "postgresql").unlink()
    for more in ((), ("--everything",)):
        assert empty.ok("server", "destroy", "--yes", *more) == f"nothing of a server is in {empty.state}\n"
    (empty.state / "runs").mkdir()
    said = empty.ok("server", "destroy", "--yes", "--everything")
    assert said == f"removed: what was made in {empty.state}; what else is there stays: notes\n"


def test_what_takes_long_shows_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_server, "_INTERVAL", 0.01)
    said = ""
    with cli_server._progress(tmp_path / "gone"):
        while said.count("\n") < 2:
            said += capsys.readouterr().err
    assert re.match(r"removing: \d.*, \d.* so far\nremoving: ", said)


def test_a_size_that_takes_long_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_bytes(bytes(4096))
    assert embedded._size(tmp_path) == (5 * 4096, True)
    monkeypatch.setattr(embedded, "_MEASURE_SECONDS", -1.0)
    monkeypatch.setattr(embedded, "_FILES_AT_ONCE", 3)
    assert embedded._size(tmp_path) == (2 * 4096, False)


def test_nothing_there(empty: Program) -> None:
    empty.fails(1, "there is no server", "pgbillion server start", "server", "status")
    assert empty.ok("server", "stop") == "not running\n"
    absent = f"there is no server in {empty.state}, and psql's default server cannot be used"
    empty.fails(2, absent, "make one: ", "tables", "create", "-n", "1")


def test_socket_path_too_long(empty: Program) -> None:
    long = empty.state / ("x" * 100)
    (long).mkdir()
    (long / "postgresql").symlink_to(paths.state_dir() / "postgresql")
    arguments = ["server", "start", "--pg-config", str(empty.pg_config), "--state-dir", str(long)]
    empty.fails(1, "107 are possible", "--state-dir", *arguments)
    assert not (long / "data").exists()


def test_disk_too_small(empty: Program) -> None:
    small = empty.state / "small"
    small.mkdir()
    root.need_root("only root can mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "none", small], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        arguments = ["server", "start", "--pg-config", str(empty.pg_config), "--state-dir", str(small)]
        empty.fails(1, "of disk", "make room", *arguments)
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize(
    ("pg_config", "error"),
    [("/no/such/pg_config", "there is no program"), ("true", "is not a pg_config"), ("false", "does not run")],
)
def test_no_pg_config(empty: Program, pg_config: str, error: str) -> None:
    empty.fails(1, error, "--pg-config", "server", "start", "--pg-config", pg_config)


def altered(program: Program, *substitutions: str) -> Path:
    """Return a pg_config that says something else than the real one in a line or two."""
    script = program.state / "pg_config"
    edits = " ".join(f"-e '{substitution}'" for substitution in substitutions)
    script.write_text(f'#!/bin/sh\n{program.pg_config} "$@" | sed {edits}\n')
    script.chmod(0o755)
    return script


def test_unsupported_major(empty: Program) -> None:
    script = altered(empty, "s/^VERSION = .*/VERSION = PostgreSQL 14.20/")
    empty.fails(1, "PostgreSQL 14.20 is not supported", "15 to 19", "server", "start", "--pg-config", script)


def test_client_only(empty: Program) -> None:
    script = altered(empty, "s|^BINDIR = .*|BINDIR = /usr/share|")
    empty.fails(1, "an installation without a server", "--pg-config", "server", "start", "--pg-config", script)


def test_missing_headers(empty: Program) -> None:
    script = altered(empty, "s|^INCLUDEDIR-SERVER = .*|INCLUDEDIR-SERVER = /no/such/folder|")
    major = Installation.prepare(paths.state_dir(), empty.pg_config).major
    wanted = f"postgresql-server-dev-{major}"
    empty.fails(1, "development files", wanted, "server", "start", "--pg-config", script)


def test_headers_of_another_minor_version(empty: Program, installation: Installation) -> None:
    """A server refuses libraries made with the headers of a later one: that is known before they are made."""
    (empty.state / "postgresql").unlink()
    facts = read_pg_config(installation.source)
    headers = empty.state / "headers"
    headers.mkdir()
    for path in Path(facts.values["INCLUDEDIR-SERVER"]).iterdir():
        (headers / path.name).symlink_to(path)
    config = headers / "pg_config.h"
    text = config.read_text()
    config.unlink()
    later = facts.version_num + 2
    config.write_text(text.replace(f"#define PG_VERSION_NUM {facts.version_num}", f"#define PG_VERSION_NUM {later}"))
    script = altered(empty, f"s|^INCLUDEDIR-SERVER = .*|INCLUDEDIR-SERVER = {headers}|")
    server, theirs = files.dotted(facts.version_num), files.dotted(later)
    theirs = f"development files are of PostgreSQL {theirs}, and the server is {server}"
    empty.fails(1, theirs, "upgrade the server", "server", "start", "--pg-config", script)


def test_missing_compiler(empty: Program) -> None:
    (empty.state / "postgresql").unlink()
    # Debian's 19 names its compiler in full
    error, hint = "gcc and no make", "gcc"
    empty.fails(1, error, hint, "server", "start", "--pg-config", empty.pg_config, PATH="/no/bin")


def test_broken_source_is_reported_with_the_compilers_words(empty: Program) -> None:
    script = altered(empty, "s/^CC = .*/CC = gcc/")
    (empty.state / "postgresql").unlink()
    arguments = ["server", "start", "--pg-config", str(script)]
    done = empty.run(*arguments, MAKEFILES="/no/such", CPATH="", COPT="-Dint=(")
    # what takes its time is announced, also where nobody looks at a terminal
    compiling, error, hint = done.stderr.splitlines()
    assert compiling.startswith("compiling the extensions for PostgreSQL ")
    assert error.startswith("error: pgbillion_tables could not be built")
    assert hint.startswith("hint: ")
    assert "make.log" in hint
    assert (done.returncode, done.stdout) == (1, "")


@as_root
def test_roots_server_runs_as_another_user(running: Program) -> None:
    with running.cluster.connect() as conn:
        uids = psutil.Process(conn.info.backend_pid).uids()
    assert uids.real == uids.effective == uids.saved != 0
    assert pwd.getpwuid(uids.real).pw_name in ("postgres", "nobody")
    # trust is for those only who may enter the socket's folder
    assert running.cluster.socket_dir.stat().st_mode & 0o777 == 0o700
    assert running.cluster.data.stat().st_mode & 0o777 == 0o700


@as_root
def test_roots_state_out_of_the_servers_reach(tmp_path: Path, installation: Installation) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = Program(closed / "state", installation.source)
    program.fails(1, "cannot reach", "--state-dir", "server", "start", "--pg-config", installation.source)
    assert closed.stat().st_mode & 0o777 == 0o700


@as_root
def test_an_ordinary_user(installation: Installation) -> None:
    """Everything once, from nothing, as nobody."""
    user = pwd.getpwnam("nobody")
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with servers.temporary_folder() as folder:
        os.chown(folder, user.pw_uid, user.pw_gid)
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PGBILLION_STATE": str(folder / "state")}

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "pgbillion", *arguments]
            return subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, check=False, **identity)  # type: ignore[call-overload,no-any-return]

        try:
            usable = run("--version").returncode == 0
        except PermissionError:
            usable = False
        if not usable:
            pytest.skip("nobody cannot reach this Python or this directory")
        done = run("server", "start", "--pg-config", str(installation.source))
        assert (done.returncode, done.stderr) == (0, "")
        done = run("server", "psql", "-XAt", "-c", "SELECT pgbillion_tables.version()")
        assert (done.stdout, done.stderr) == (f"{__version__}\n", "")
        done = run("server", "destroy", "--yes")
        assert (done.returncode, done.stderr) == (0, "")
        assert not (folder / "state").exists()


def test_usage_errors_end_with_1(empty: Program) -> None:
    empty.fails(1, "No such option", "pgbillion server start --help", "server", "start", "--nonsense")
    empty.fails(1, "No such command", "pgbillion --help", "nonsense")
    empty.fails(1, "No such command", "pgbillion server --help", "server", "nonsense")


def test_help_and_version(empty: Program) -> None:
    assert empty.ok("--version") == f"pgbillion {__version__}\n"
    assert "server" in empty.ok()
    for command in ("start", "stop", "status", "psql", "destroy"):
        assert "Example:" in empty.ok("server", command, "--help")


def test_ctrl_c(running: Program) -> None:
    """Interrupted while it waits for a server that does not answer, it ends with 130."""
    postmaster = running.cluster._postmaster()
    assert postmaster is not None
    postmaster.suspend()
    try:
        env = {**os.environ, "PGBILLION_STATE": str(running.state)}
        command = [sys.executable, "-m", "pgbillion", "server", "status"]
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as program:
            waiting = psutil.Process(program.pid)
            servers.until(lambda: waiting.net_connections("unix") or None, "the connection to be under way")
            program.send_signal(signal.SIGINT)
            _, errors = program.communicate(timeout=60)
        assert (program.returncode, errors) == (130, "error: interrupted\n")
    finally:
        postmaster.resume()
