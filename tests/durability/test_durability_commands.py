"""`pgbillion durability …` as a user runs it: what it refuses, what it says, and what is left behind."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from durability_support import Server, durable_server
from harness import root, servers
from pgbillion.cli import connect
from pgbillion.common import paths
from pgbillion.durability import window
from pgbillion.durability.checks import Allow
from pgbillion.durability.profiles import PROFILES, Profile
from pgbillion.durability.record import MARK
from pgbillion.durability.relax import Restart
from pgbillion.server import embedded
from pgbillion.server.postgres import SUPERUSER, Cluster, Installation, make_folder, run_as_server

as_root = root.as_root("mounts file systems and changes users")


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Server]:
    with durable_server(installation, max_replication_slots="5") as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    """A durable server that the test leaves as it was, whatever it tried."""
    before = shared.picture()
    yield shared
    assert shared.picture() == before
    assert shared.status().window == "none"


def pgbillion(server: Server, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    env |= {"PGBILLION_STATE": str(server.state), "NO_COLOR": "1", **variables}
    command = [sys.executable, "-m", "pgbillion", *arguments]
    if "-d" not in arguments and not variables:
        command += ["-d", server.cluster.conninfo()]
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def ok(server: Server, *arguments: str) -> str:
    done = pgbillion(server, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(server: Server, status: int, error: str, hint: str, *arguments: str) -> None:
    """Expect one line of error and one of hint as the last words."""
    done = pgbillion(server, *arguments)
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines[-2:]] == ["error", "hint"], done.stderr
    assert error in lines[-2]
    assert hint in lines[-1]
    assert done.returncode == status
    assert "Traceback" not in done.stderr


# ---- refusals: a clear error and an unchanged server (the fixture looks)


@pytest.mark.quick
def test_wrong_profile(server: Server) -> None:
    fails(server, 1, "Invalid value for '--profile'", "--help", "durability", "relax", "--profile", "reckless")


def test_missing_privileges(server: Server) -> None:
    server.execute("CREATE ROLE clerk LOGIN")
    try:
        where = server.cluster.conninfo().replace(f"user={SUPERUSER}", "user=clerk")
        for command in ("relax", "restore"):
            fails(server, 3, "clerk is not a superuser", "-U", "durability", command, "-d", where)
        report = json.loads(ok(server, "durability", "status", "--json", "-d", where))
        assert report["window"] == "none"
        assert report["durable"]
        # and it sees a window that somebody else opened
        server.relax(Profile.ASYNC)
        report = json.loads(ok(server, "durability", "status", "--json", "-d", where))
        assert (report["window"], report["profile"], report["durable"]) == ("open", "async", False)
        server.restore()
    finally:
        server.execute("DROP ROLE clerk")


def test_a_restart_is_its_owners_to_allow(server: Server) -> None:
    pid = server.cluster.data.joinpath("postmaster.pid").read_text().split()[0]
    fails(server, 1, "wal_level = minimal, max_wal_senders = 0 takes a restart", "--restart now", "durability", "relax")
    assert f"pg_ctl -D {server.cluster.data} restart" in pgbillion(server, "durability", "relax").stderr
    folder = str(server.state / "wal")
    fails(
        server,
        1,
        "takes a restart",
        f"cp -a {server.cluster.data}/pg_wal/.",
        "durability",
        "relax",
        "--wal-dir",
        folder,
    )
    assert server.cluster.data.joinpath("postmaster.pid").read_text().split()[0] == pid


def test_a_dry_run_asks_for_no_decision(server: Server) -> None:
    """What the README shows of an ordinary server: what would be done, and which restart to choose."""
    with server.cluster.connect(autocommit=False) as conn:
        conn.execute("SELECT 1")  # work that a restart would end
        said = ok(server, "durability", "relax", "--dry-run")
    assert 'ALTER SYSTEM SET "wal_level"' in said
    assert "-- start the server" in said
    assert "takes a restart of the server, which is yours to allow: say --restart now, later or never" in said
    # a restart that is asked for is checked, dry or not
    with server.cluster.connect(autocommit=False) as conn:
        conn.execute("SELECT 1")
        fails(server, 1, "would interrupt", "--allow", "durability", "relax", "--dry-run", "--restart", "now")


def test_a_restart_waits_for_work(server: Server) -> None:
    with server.cluster.connect(autocommit=False) as conn:
        conn.execute("SELECT 1")
        pid = conn.info.backend_pid
        fails(
            server,
            1,
            f"interrupt sessions at work (pid {pid})",
            "--allow sessions",
            "durability",
            "relax",
            "--restart",
            "now",
        )
        # without a restart nobody is disturbed
        server.relax(restart=Restart.NEVER)
        conn.execute("SELECT 1")
        conn.commit()
    server.restore()


def test_a_slot(server: Server) -> None:
    server.execute("SELECT pg_create_physical_replication_slot('kept')")
    try:
        for more in ((), ("--allow", "slots")):
            fails(server, 1, "would not start", "--restart never", "durability", "relax", "--restart", "now", *more)
        fails(server, 1, "(kept)", "--allow slots", "durability", "relax", "--restart", "never")
        server.relax(restart=Restart.NEVER, allow={Allow.SLOTS})
        server.restore()
    finally:
        server.execute("SELECT pg_drop_replication_slot('kept')")


def test_a_standby(server: Server) -> None:
    with servers.temporary_folder(lasting=True) as folder:
        standby = Cluster(server.cluster.installation, folder / "data", folder / "s")
        make_folder(standby.data, private=True, for_server=True)
        where: list[str | Path] = ["-h", server.cluster.socket_dir, "-p", str(server.cluster.port), "-U", SUPERUSER]
        backup: list[str | Path] = [
            standby.installation.program("pg_basebackup"),
            "-R",
            "-c",
            "fast",
            "--no-sync",
            "-D",
            standby.data,
        ]
        run_as_server([*backup, *where], check=True, capture_output=True)
        standby.start()
        try:
            servers.until(lambda: server.one("SELECT count(*) FROM pg_stat_replication"), "the standby")
            fails(server, 1, "in recovery", "primary", "durability", "relax", "-d", standby.conninfo())
            fails(server, 1, "in recovery", "primary", "durability", "restore", "-d", standby.conninfo())
            fails(
                server,
                1,
                "a standby or a base backup is attached",
                "--allow standby",
                "durability",
                "relax",
                "--restart",
                "now",
            )
            # nothing is broken by commits that return early, unless they wait for the standby
            server.relax(Profile.ASYNC)
            server.restore()
            server.execute("ALTER SYSTEM SET synchronous_standby_names = 'walreceiver'", "SELECT pg_reload_conf()")
            fails(
                server, 1, "commits wait for a standby", "--allow standby", "durability", "relax", "--profile", "async"
            )
            server.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
            server.relax(restart=Restart.NEVER, allow={Allow.STANDBY})
            server.restore()
        finally:
            standby.destroy()


def test_archiving(installation: Installation) -> None:
    with durable_server(installation, archive_mode="on", archive_command="true") as server:
        before = server.picture()
        fails(server, 1, "the archive would have a gap", "--allow archiving", "durability", "relax", "--restart", "now")
        assert server.picture() == before
        server.relax(allow={Allow.ARCHIVING})
        assert server.one("SHOW archive_mode") == "off"
        server.restore()
        assert server.picture() == before


def test_a_subscription(server: Server) -> None:
    server.execute(
        "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = 's')",
        "ALTER SUBSCRIPTION s ENABLE",
    )
    try:
        fails(
            server,
            1,
            "subscribes to publications",
            "--allow subscriptions",
            "durability",
            "relax",
            "--restart",
            "never",
        )
    finally:
        server.execute(
            "ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s"
        )


def test_a_setting_of_the_command_line(installation: Installation) -> None:
    with durable_server(installation) as server:
        cluster = server.cluster
        options = (
            f"-c unix_socket_directories='{cluster.socket_dir}' -p {cluster.port} -c listen_addresses= -c fsync=on"
        )
        cluster.stop()
        with cluster.log.open("a") as log:
            command: list[str | Path] = [cluster.installation.program("pg_ctl"), "start", "--silent"]
            command += ["-D", cluster.data, "-o", options]
            run_as_server(command, check=True, stdout=log, stderr=subprocess.STDOUT)
        before = server.picture()
        fails(
            server,
            1,
            "fsync is set by the server's command line",
            "without it",
            "durability",
            "relax",
            "--restart",
            "now",
        )
        assert server.picture() == before
        # what is on the command line comes back with a restart of ours
        server.execute("ALTER SYSTEM SET wal_level = logical")
        cluster.stop()
        with cluster.log.open("a") as log:
            run_as_server(command, check=True, stdout=log, stderr=subprocess.STDOUT)
        assert server.one("SELECT source FROM pg_settings WHERE name = 'fsync'") == "command line"


def test_alter_system_forbidden(installation: Installation) -> None:
    if installation.major < 17:
        pytest.skip("allow_alter_system came with PostgreSQL 17")
    with durable_server(installation, allow_alter_system="off") as server:
        fails(server, 3, "allow_alter_system = off", "configuration", "durability", "relax", "--profile", "async")


def test_files_that_cannot_be_loaded(server: Server) -> None:
    with edited(server.cluster, "fsync = maybe\n"):
        fails(server, 1, "cannot load its settings", "first", "durability", "relax", "--profile", "async")


def test_changes_that_wait_for_a_restart(server: Server) -> None:
    with edited(server.cluster, "shared_buffers = '1TB'\n"):
        error, hint = "wait for a restart of the server: shared_buffers", "restart it first"
        # not loaded yet; and loaded
        fails(server, 1, error, hint, "durability", "relax", "--restart", "now")
        server.execute("SELECT pg_reload_conf()")
        servers.until(
            lambda: server.one("SELECT pending_restart FROM pg_settings WHERE name = 'shared_buffers'"), "the reload"
        )
        fails(server, 1, error, hint, "durability", "relax", "--restart", "now")
        server.relax(restart=Restart.NEVER)
        server.restore()
    server.execute("SELECT pg_reload_conf()")


@contextmanager
def edited(cluster: Cluster, line: str) -> Iterator[None]:
    text = cluster.conf.read_text()
    cluster.conf.write_text(text + line)
    try:
        yield
    finally:
        cluster.conf.write_text(text)


def test_wal_folders(server: Server, tmp_path: Path) -> None:
    def refused(folder: Path | str, error: str, hint: str = "") -> None:
        done = pgbillion(server, "durability", "relax", "--restart", "now", "--wal-dir", str(folder))
        assert done.returncode == 1
        assert done.stderr.startswith("error: "), done.stderr
        assert error in done.stderr
        assert hint in done.stderr

    with servers.temporary_folder(lasting=True) as folder:
        (folder / "full").mkdir()
        (folder / "full" / "file").touch()
        (folder / "file").touch()
        refused(folder / "full", "is not empty", "empty it")
        refused(folder / "file", "is not a directory")
        refused("wal", "by its whole path")
        refused(server.cluster.data / "wal", "inside the data directory")
        refused(folder / "no" / "wal", "there is no directory")
        (folder / "closed").mkdir(mode=0o755)
        if os.geteuid() == 0:
            refused(folder / "closed", "cannot write", "install -d -o")
        assert sorted(path.name for path in folder.iterdir()) == ["closed", "file", "full"]
    done = pgbillion(server, "durability", "relax", "--restart", "never", "--wal-dir", "/nowhere/wal")
    assert "cannot be moved without a restart" in done.stderr


@as_root
def test_a_wal_folder_too_small(server: Server) -> None:
    with servers.temporary_folder(lasting=True) as small:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "none", small], check=False, capture_output=True
        )
        if mounted.returncode != 0:
            pytest.skip("a small file system cannot be mounted here")
        try:
            small.chmod(0o777)
            fails(
                server,
                1,
                "is too small",
                "make room",
                "durability",
                "relax",
                "--restart",
                "now",
                "--wal-dir",
                str(small),
            )
        finally:
            subprocess.run(["umount", small], check=True)


@as_root
def test_a_wal_folder_that_fills_while_it_is_copied(server: Server) -> None:
    """The server is stopped by then; it has to come back as it was."""
    with servers.temporary_folder(lasting=True) as small:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1g,nr_inodes=3", "none", small], check=False, capture_output=True
        )
        if mounted.returncode != 0:
            pytest.skip("a small file system cannot be mounted here")
        try:
            small.chmod(0o777)
            done = pgbillion(server, "durability", "relax", "--restart", "now", "--wal-dir", str(small))
            assert done.returncode == 1
            assert "putting everything back" in done.stderr
            assert "No space left on device" in done.stderr
            assert list(small.iterdir()) == []
        finally:
            subprocess.run(["umount", small], check=True)


def test_two_at_once(server: Server) -> None:
    with (server.state / "durability" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in ("relax", "restore"):
            fails(server, 1, "another pgbillion durability command", "wait", "durability", command)


def test_relaxed_already(server: Server) -> None:
    server.relax(Profile.ASYNC)
    fails(server, 1, "relaxed already (profile async", "to end it: ", "durability", "relax")
    server.restore()


def test_nothing_to_restore(server: Server) -> None:
    assert ok(server, "durability", "restore") == "no window is open\ndurable, by its settings\n"


# ---- what it does


@pytest.mark.quick
@pytest.mark.parametrize("profile", list(Profile))
def test_a_profile_is_set_and_put_back(server: Server, profile: Profile) -> None:
    before = server.picture()
    server.execute(
        "ALTER SYSTEM SET checkpoint_timeout = '11min'", "ALTER SYSTEM SET work_mem = '6MB'", "SELECT pg_reload_conf()"
    )
    server.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
    there = server.picture()
    try:
        ok(server, "durability", "relax", "--profile", profile, "--restart", "now")
        major = server.cluster.installation.major
        for setting in PROFILES[profile]:
            if major >= setting.since:
                assert setting.satisfied(server.one("SELECT setting FROM pg_settings WHERE name = %s", setting.name))
        report = server.status()
        assert (report.window, report.profile, report.durable) == ("open", profile, profile is Profile.FULL)
        server.execute("INSERT INTO t VALUES (1001)")
        out = ok(server, "durability", "restore")
        assert out == "the settings are as they were before the window\ndurable: all data is on disk\n"
        assert server.picture() == there
        assert server.one("SELECT count(*) FROM t") == 1001
    finally:
        server.execute(
            "ALTER SYSTEM RESET checkpoint_timeout",
            "ALTER SYSTEM RESET work_mem",
            "SELECT pg_reload_conf()",
            "DROP TABLE t",
        )
        servers.until(lambda: server.picture() == before, "the reload")


def test_what_others_changed_within_the_window(server: Server) -> None:
    server.relax(restart=Restart.NEVER)
    server.execute("ALTER SYSTEM SET fsync = on", "ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")
    # set by hand, it makes nothing durable that was written before
    assert not server.status().durable
    assert server.restore().not_durable == []


def test_own_values_of_a_database(server: Server) -> None:
    """ALTER DATABASE … SET hides the server's value from the sessions of the tool, and is left alone."""
    server.execute("ALTER DATABASE postgres SET synchronous_commit = 'local'")
    try:
        outcome = server.relax(Profile.ASYNC)
        assert outcome.notes == ["synchronous_commit stays as it is set for database postgres"]
        report = server.status()
        assert report.settings["synchronous_commit"]["now"] == "off"
        assert report.settings["synchronous_commit"]["before"] == "on"
        assert server.restore().not_durable == []
    finally:
        server.execute("ALTER DATABASE postgres RESET synchronous_commit")


@pytest.mark.quick
def test_dry_run(server: Server) -> None:
    command = ("durability", "relax", "--restart", "now", "--wal-dir", str(server.state / "wal"))
    planned = ok(server, *command, "--dry-run").splitlines()
    assert f"-- move pg_wal to {server.state / 'wal'}" in planned
    assert server.status().window == "none"
    # the very same, in the same order, is what is done
    done = pgbillion(server, *command)
    assert [line for line in done.stderr.splitlines() if MARK not in line] == [
        line for line in planned if MARK.split(".")[0] not in line
    ]
    before = server.picture()
    planned = ok(server, "durability", "restore", "--dry-run").splitlines()
    assert server.picture() == before
    done = pgbillion(server, "durability", "restore")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == planned


def test_restart_later(server: Server) -> None:
    """The user restarts the server; until then the window stays open, on the way in and out."""
    cluster = server.cluster
    out = ok(server, "durability", "relax", "--restart", "later")
    assert re.search(rf"to do: .*pg_ctl -D {cluster.data} restart", out)
    assert server.one("SHOW fsync") == "off"
    assert server.one("SHOW wal_level") == "replica"
    cluster.stop()
    cluster.start()
    assert server.one("SHOW wal_level") == "minimal"
    fails(
        server,
        1,
        "all data is on disk, but max_wal_senders, wal_level takes a restart",
        "--restart now",
        "durability",
        "restore",
    )
    assert server.one("SHOW fsync") == "on"
    assert not server.status().durable
    cluster.stop()
    cluster.start()
    assert server.restore().not_durable == []


def test_every_command_warns(server: Server) -> None:
    assert "warning" not in pgbillion(server, "tables", "list").stderr
    server.relax(restart=Restart.NEVER)
    try:
        for command in (("tables", "list"), ("tables", "drop", "nosuch"), ("tables", "estimate", "-n", "10")):
            done = pgbillion(server, *command)
            assert done.stderr.count("warning: this server is relaxed (profile minimal") == 1, done.stderr
            assert "pgbillion durability restore" in done.stderr
        with connect.target(dbname=server.cluster.conninfo()).connect(autocommit=False) as conn:
            # the look at it leaves no transaction behind
            assert conn.info.transaction_status.name == "IDLE"
    finally:
        server.restore()
    assert "warning" not in pgbillion(server, "tables", "list").stderr


def test_a_window_for_other_commands(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def fail_within() -> None:
        with window.relaxed(server.target, Profile.MINIMAL, server.state, said.append, restart=Restart.NOW) as opened:
            assert opened.record.wanted["fsync"] == "off"
            with server.target.connect() as conn:
                assert servers.one(conn, "SHOW fsync") == "off"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert server.status().durable
    # it is its own window, of which it need not be warned
    assert capfd.readouterr().err == ""


def test_a_linked_pg_wal(installation: Installation) -> None:
    """pg_wal that was a link before is one again."""
    with durable_server(installation) as server, servers.temporary_folder(lasting=True) as folder:
        cluster = server.cluster
        cluster.stop()
        make_folder(folder / "own", private=True, for_server=True)
        wal = cluster.data / "pg_wal"
        shutil.copytree(wal, folder / "own", dirs_exist_ok=True)
        run(["chown", "-R", "--reference", cluster.data, folder / "own"])
        shutil.rmtree(wal)
        wal.symlink_to(folder / "own")
        cluster.start()
        before = server.picture()
        server.execute("CREATE TABLE t AS SELECT 1 AS i")
        server.relax(wal_dir=folder / "wal")
        assert wal.readlink() == folder / "wal"
        assert list((folder / "own").iterdir()) == []
        server.execute("INSERT INTO t VALUES (2)")
        assert server.restore().not_durable == []
        assert server.picture() == before
        assert server.one("SELECT count(*) FROM t") == 2
        assert [path.name for path in folder.iterdir()] == ["own"]


def test_a_lost_wal(installation: Installation) -> None:
    """What was in memory is gone with it: the settings come back, the trust does not."""
    with durable_server(installation) as server, servers.temporary_folder(lasting=True) as folder:
        before = server.picture()
        server.relax(wal_dir=folder / "wal")
        server.cluster.kill()
        shutil.rmtree(folder / "wal")
        report = server.status()
        assert (report.running, report.trust, report.durable) == (False, "no", False)
        assert "write-ahead log is lost" in (report.reason or "")
        fails(server, 1, "the write-ahead log is lost", "--lost-wal", "durability", "restore")
        fails(
            server,
            1,
            "the settings are put back, but the write-ahead log is lost",
            "pg_resetwal",
            "durability",
            "restore",
            "--lost-wal",
        )
        program = server.cluster.installation.program("pg_resetwal")
        done = run_as_server([program, "-f", server.cluster.data], capture_output=True)
        assert done.returncode == 0, done.stderr
        server.cluster.start()
        assert server.status().trust == "no"
        done = pgbillion(server, "durability", "status")
        assert done.returncode == 1
        assert "the write-ahead log was lost" in done.stdout
        server.restore(trust=True)
        assert server.picture() == before


def test_a_server_that_is_down_within_a_window(installation: Installation) -> None:
    with durable_server(installation) as server:
        server.execute("CREATE TABLE t AS SELECT 1 AS i")
        before = server.picture()
        server.relax(restart=Restart.NEVER)
        server.cluster.stop()
        report = server.status()
        assert (report.running, report.window, report.durable) == (False, "open", False)
        # not ours to start, unless told
        fails(server, 2, "the server is down within a durability window", "--restart now", "durability", "restore")
        assert server.restore(restart=True).not_durable == []
        assert server.picture() == before


# ---- the embedded server


def test_the_embedded_server(installation: Installation) -> None:
    with servers.temporary_folder(lasting=True) as folder, servers.temporary_folder(lasting=True) as elsewhere:
        (folder / "postgresql").symlink_to(paths.state_dir() / "postgresql")
        cluster, _ = embedded.start(folder, installation.source)
        server = Server(cluster, folder)
        try:
            before = server.picture()

            def run_embedded(*arguments: str) -> subprocess.CompletedProcess[str]:
                return pgbillion(server, *arguments, PGBILLION_STATE=str(folder))

            # its own settings are for loading; full makes it durable, restarting it without a word
            done = run_embedded("durability", "relax", "--profile", "full")
            assert done.returncode == 0, done.stderr
            assert server.one("SHOW wal_level") == "replica"
            report = json.loads(run_embedded("durability", "status", "--json").stdout)
            assert report["durable"]
            assert "note: a durability window is open (profile full" in run_embedded("server", "status").stderr
            done = run_embedded("durability", "restore")
            assert "not durable, by the server's own settings: fsync = off" in done.stdout
            assert server.picture() == before
            # a cycle on it has it restarted for its profiles, and back
            run_embedded("server", "psql", "-c", "CREATE TABLE model (i integer)")
            done = run_embedded("cycle", "-n", "5", "--template", "model", "-o", str(elsewhere / "page.html"))
            assert done.returncode == 0, done.stderr
            assert server.picture() == before
            # down within a window, it is found and started; and a log that went elsewhere goes with the server
            done = run_embedded("durability", "relax", "--wal-dir", str(elsewhere / "wal"))
            assert done.returncode == 0, done.stderr
            assert "warning: this server is relaxed" in run_embedded("server", "stop").stderr
            assert "down" in run_embedded("durability", "status").stdout
            # where it does not start, that it was relaxed is said
            settings = cluster.data / "postgresql.auto.conf"
            text = settings.read_text()
            settings.write_text(text + "no_such_setting = 1\n")
            done = run_embedded("server", "start", "--pg-config", str(installation.source))
            assert done.returncode == 2
            assert "hint: it was relaxed: " in done.stderr
            settings.write_text(text)
            done = run_embedded("durability", "restore")
            assert done.returncode == 0, done.stderr
            assert server.picture() == before
            run_embedded("durability", "relax", "--wal-dir", str(elsewhere / "wal"))
            assert (elsewhere / "wal").exists()
            done = run_embedded("server", "destroy", "--yes")
            assert done.returncode == 0, done.stderr
            assert not (elsewhere / "wal").exists()
            assert not folder.exists()
        finally:
            cluster.destroy()


@as_root
def test_an_ordinary_users_own_server(installation: Installation) -> None:
    """The whole way as nobody, on a server nobody started with pg_ctl."""
    user = pwd.getpwnam("nobody")
    identity: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with servers.temporary_folder(lasting=True) as folder:
        os.chown(folder, user.pw_uid, user.pw_gid)
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PGBILLION_STATE": str(folder / "state")}

        def as_nobody(*command: str | Path) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                list(map(str, command)), cwd="/", env=env, capture_output=True, text=True, check=False, **identity
            )

        python = reachable_python(as_nobody)
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

        def tool(*arguments: str) -> str:
            where = ["-h", str(folder), "-p", "5433", "-U", "me", "-d", "postgres"]
            done = as_nobody(python, "-m", "pgbillion", "durability", *arguments, *where)
            assert done.returncode == 0, done.stderr
            return done.stdout

        data = folder / "data"
        bin_ = installation.bindir
        assert as_nobody(bin_ / "initdb", "-D", data, "-U", "me", "--no-sync").returncode == 0
        options = f"-k {folder} -p 5433 -c listen_addresses="
        started = as_nobody(bin_ / "pg_ctl", "start", "-s", "-D", data, "-l", folder / "log", "-o", options)
        assert started.returncode == 0, started.stdout + started.stderr
        try:
            tool("relax", "--restart", "now", "--wal-dir", str(folder / "wal"))
            assert (data / "pg_wal").readlink() == folder / "wal"
            report = json.loads(tool("status", "--json"))
            assert report["settings"]["fsync"] == {
                "now": "off",
                "before": "on",
                "within": "off",
                "pending_restart": False,
            }
            assert "durable: all data is on disk" in tool("restore")
            assert not (data / "pg_wal").is_symlink()
            assert not (folder / "wal").exists()
        finally:
            as_nobody(bin_ / "pg_ctl", "stop", "-s", "-D", data, "-m", "immediate")


def reachable_python(run_as: Callable[..., subprocess.CompletedProcess[str]]) -> str:
    """Return a Python like ours that another user can run: ours may be in root's home."""
    for python in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        with suppress(OSError):
            if run_as(python, "-c", "import ssl").returncode == 0:
                return python
    pytest.skip("no Python of this version that nobody can reach")


def run(command: list[str | Path]) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
