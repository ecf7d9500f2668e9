"""A run that is interrupted, or whose worker, server or tool dies, is completed by --resume: no duplicate, no gap."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from harness import servers
from harness.command_line import CommandLine, command_line, count, expected, failed, names
from pgbillion.server.postgres import Cluster, Installation

# enough that there is time to break in after the first commit
COUNT = {"bulk": 20_000, "sql": 6_000}
METHODS = ("bulk", "sql")


@pytest.fixture(scope="module")
def own(installation: Installation) -> Iterator[Cluster]:
    """A cluster that these tests may crash."""
    with servers.new_cluster(installation) as cluster:
        yield cluster


@pytest.fixture
def cli(own: Cluster) -> Iterator[CommandLine]:
    own.start()
    with servers.new_database(own, "resume") as database, command_line(own, database) as cli:
        yield cli


def create(cli: CommandLine, method: str) -> tuple[str, ...]:
    # small batches: the first commit comes early, and much is left to do
    batch = "300" if method == "bulk" else "1500"
    return (
        "tables", "create", "--count", str(COUNT[method]), "--jobs", "2", "--batch", batch, "--method", method,
        "--run-dir", str(cli.state / "run"), "--sample-interval", "0.5",
    )  # fmt: skip


def complete(cli: CommandLine, method: str) -> None:
    """Resume, and look at every name."""
    with cli.connect() as conn:
        before = count(conn)
    done = cli.json("tables", "create", "--resume", str(cli.state / "run"))
    assert done["total"] == COUNT[method]
    assert done["created"] == COUNT[method] - before
    with cli.connect() as conn:
        assert names(conn) == expected(0, COUNT[method])
    journal = json.loads((cli.state / "run" / "journal.json").read_text())
    assert [attempt["outcome"] for attempt in journal["attempts"]][-1] == "done"


def unfinished(cli: CommandLine, method: str) -> None:
    with cli.connect() as conn:
        assert 0 < count(conn) < COUNT[method]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(cli: CommandLine, method: str, number: signal.Signals) -> None:
    with cli.started(*create(cli, method)) as process:
        cli.wait_for_table()
        process.send_signal(number)
        _, said = process.communicate()
    done = subprocess.CompletedProcess([], process.returncode, "", said)
    failed(done, 130, "interrupted with", "resume with: ")
    unfinished(cli, method)
    # the command it printed, as it is
    command = shlex.split(said.split("resume with: ")[1].strip())
    assert command[-2:] == ["-d", command[-1]] or "--state-dir" in command
    resumed = subprocess.run(command, env=cli._env(), capture_output=True, text=True, timeout=300)
    assert resumed.returncode == 0, resumed.stderr
    with cli.connect() as conn:
        assert names(conn) == expected(0, COUNT[method])


def test_interrupt_twice_does_not_wait(cli: CommandLine) -> None:
    """A worker that waits for a lock forever is ended by the second Ctrl-C."""
    with cli.started(*create(cli, "sql")) as process:
        cli.wait_for_table()
        with cli.connect() as conn, conn.transaction():
            conn.execute("LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE")
            process.send_signal(signal.SIGINT)
            servers.until(lambda: _handled(process), "the first signal to be handled")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    cli.workers_gone()
    complete(cli, "sql")


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children()
    return [child for child in children if "pgbillion.tables.worker" in child.cmdline()]


def _handled(process: subprocess.Popen[str]) -> bool:
    """Tell whether workers were asked to stop: each end of a pipe that the coordinator held is closed."""
    workers = _workers(process)
    with contextlib.suppress(OSError):
        pipes = {Path(f"/proc/{worker.pid}/fd/0").readlink() for worker in workers}
        held = {descriptor.readlink() for descriptor in Path(f"/proc/{process.pid}/fd").iterdir()}
        return not pipes & held
    return False


@pytest.mark.parametrize("method", METHODS)
def test_tool_killed(cli: CommandLine, method: str) -> None:
    with cli.started(*create(cli, method)) as process:
        cli.wait_for_table()
        process.kill()
        process.communicate()
    cli.workers_gone()
    unfinished(cli, method)
    complete(cli, method)


@pytest.mark.parametrize("method", METHODS)
def test_server_killed(cli: CommandLine, method: str) -> None:
    with cli.started(*create(cli, method)) as process:
        cli.wait_for_table()
        cli.cluster.kill()
        _, said = process.communicate()
    failed(subprocess.CompletedProcess([], process.returncode, "", said), 2, "", "resume with: ")
    lost = cli.run("tables", "create", "--resume", str(cli.state / "run"))
    failed(lost, 2, "connect")
    cli.cluster.start()
    with cli.connect() as conn:
        assert count(conn) < COUNT[method]
    complete(cli, method)


@pytest.mark.parametrize("method", METHODS)
def test_connection_lost(cli: CommandLine, method: str) -> None:
    with cli.started(*create(cli, method)) as process:
        cli.wait_for_table()
        with cli.connect() as conn:
            query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
            servers.until(lambda: servers.one(conn, query, "pgbillion worker 2") == 1, "a worker to terminate")
        _, said = process.communicate()
    failed(subprocess.CompletedProcess([], process.returncode, "", said), 2, "terminating connection", "resume with: ")
    cli.workers_gone()
    unfinished(cli, method)
    complete(cli, method)


def test_connection_lost_between_two_batches(cli: CommandLine) -> None:
    """The worker hears of the end together with the answer to its batch, as on a machine that is busy."""
    with cli.started(*create(cli, "bulk")) as process:
        cli.wait_for_table()
        workers = _workers(process)
        with cli.connect() as conn:
            for worker in workers:
                worker.suspend()
            try:
                sessions = "FROM pg_stat_activity WHERE application_name LIKE 'pgbillion worker%%'"
                servers.until(
                    lambda: servers.one(conn, f"SELECT bool_and(state = 'idle') {sessions}"), "sessions to be idle"
                )
                assert servers.one(conn, f"SELECT bool_and(pg_terminate_backend(pid, 60000)) {sessions}")
            finally:
                for worker in workers:
                    worker.resume()
        _, said = process.communicate()
    failed(subprocess.CompletedProcess([], process.returncode, "", said), 2, "terminating connection", "resume with: ")
    cli.workers_gone()
    complete(cli, "bulk")


@pytest.mark.parametrize("method", METHODS)
def test_worker_killed(cli: CommandLine, method: str) -> None:
    with cli.started(*create(cli, method)) as process:
        cli.wait_for_table()
        _workers(process)[0].kill()
        _, said = process.communicate()
    failed(subprocess.CompletedProcess([], process.returncode, "", said), 2, "was killed by signal 9", "resume with: ")
    cli.workers_gone()
    unfinished(cli, method)
    complete(cli, method)


def test_name_taken_in_the_middle(cli: CommandLine) -> None:
    with cli.started(*create(cli, "sql")) as process:
        cli.wait_for_table()
        with cli.connect() as conn:
            conn.execute(sql.SQL("CREATE TABLE {} (x text)").format(sql.Identifier("_%08x" % (COUNT["sql"] - 1))))
        _, said = process.communicate()
    failed(
        subprocess.CompletedProcess([], process.returncode, "", said),
        3,
        "already exists",
        "remove it, then resume with",
    )
    with cli.connect() as conn:
        conn.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier("_%08x" % (COUNT["sql"] - 1))))
    complete(cli, "sql")


def test_what_resume_refuses(cli: CommandLine, own: Cluster) -> None:
    small = ("tables", "create", "--count", "40", "--jobs", "2", "--run-dir", str(cli.state / "run"))
    cli.run(*small, check=True)
    resume = ("tables", "create", "--resume", str(cli.state / "run"))
    failed(cli.run(*resume, "--jobs", "3"), 1, "other options cannot change it")
    failed(cli.run(*small, "--first", "100"), 1, "holds a run already", "--resume")
    with servers.new_database(own, "elsewhere") as other:
        elsewhere = CommandLine(own, other, cli.state)
        failed(elsewhere.run(*resume), 1, "belongs to another server or database")
    nowhere = cli.run("tables", "create", "--resume", "nowhere")
    assert nowhere.returncode == 1
    assert "there is no run" in nowhere.stderr
    # complete already: nothing to do, and said so
    assert cli.json(*resume)["created"] == 0
    # a gap that no crash makes is not passed over
    with cli.connect() as conn:
        conn.execute("DROP TABLE _00000005, _00000008")
        conn.execute("CREATE TABLE _00000005 (LIKE _00000004)")
    gap = cli.run(*resume)
    assert gap.returncode in (1, 3)
    assert "error: " in gap.stderr


def test_two_at_once(cli: CommandLine) -> None:
    with cli.started(*create(cli, "sql")) as process:
        cli.wait_for_table()
        # it must not be done before the other begins
        process.send_signal(signal.SIGSTOP)
        try:
            done = cli.run("tables", "create", "--resume", str(cli.state / "run"))
        finally:
            process.send_signal(signal.SIGCONT)
        failed(done, 1, "another process is working on the run")
        process.send_signal(signal.SIGINT)
        process.communicate()
    complete(cli, "sql")


def test_torn_files_of_a_run(cli: CommandLine) -> None:
    """A crash of the machine may leave a half-written sample and no journal; the plan is written first."""
    with cli.started(*create(cli, "bulk")) as process:
        cli.wait_for_table()
        process.kill()
    cli.workers_gone()
    run = cli.state / "run"
    with (run / "samples.jsonl").open("a") as samples:
        samples.write('{"time": 1, "tot')
    (run / "journal.json").unlink()
    complete(cli, "bulk")
    cli.run("tables", "report", str(run), server=False, check=True)


def test_embedded_server_stopped(cli: CommandLine) -> None:
    """The message leads to the server first, then to the run."""
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect("host=/nonexistent")
    done = cli.run("tables", "create", "--count", "10", "-h", "/nonexistent")
    failed(done, 2, "/nonexistent")
