"""`pgbillion shards …` on servers of the user's own, here databases of one server: secrets, failures, what is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from harness import servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one, until
from pgbillion.cli import connect
from pgbillion.cli import shards as shard_commands
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import load
from pgbillion.server.postgres import Cluster, server_user
from pgbillion.shards import create, destroy, members, record, status

ROWS = 500
SECRET = "hunter2"


@pytest.fixture(scope="module")
def databases(cluster: Cluster, database: str) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(servers.new_database(cluster, f"{database}_shard{number}")) for number in (1, 2)]


@pytest.fixture
def cli(cluster: Cluster, database: str, databases: list[str]) -> Iterator[CommandLine]:
    """The command line; whatever the test did, no set is left and nothing carries its mark."""
    with command_line(cluster, database) as cli:
        yield cli
        assert list(record.all_sets(cli.state)) == []
        for name in [database, *databases]:
            with cluster.connect(name) as conn:
                assert everything(conn) == []


def everything(conn: Connection) -> list[str]:
    """Whatever a set consists of: relations of users, servers, mappings."""
    rows = conn.execute(
        "SELECT 'relation ' || relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname ~ 't_demo'"
        " UNION ALL SELECT 'server ' || srvname FROM pg_foreign_server"
        " UNION ALL SELECT 'mapping ' || usename FROM pg_user_mappings"
    ).fetchall()
    return [name for (name,) in rows]


@pytest.fixture
def addresses(cluster: Cluster, databases: list[str]) -> list[str]:
    return [cluster.conninfo(name) for name in databases]


def target(cli: CommandLine) -> Target:
    return connect.target(dbname=cli.conninfo)


def make(cli: CommandLine, addresses: list[str], **more: Any) -> create.Outcome:
    request = create.Request(**{"rows": ROWS, "given": tuple(addresses), **more})
    return create.execute(target(cli), cli.state, request, observe=nobody, say=lambda line: None)


@contextlib.contextmanager
def nobody(total: int) -> Iterator[Any]:
    yield lambda done: None


def remove(cli: CommandLine, table: str = load.TABLE, *, abandon: bool = False) -> destroy.Outcome:
    found = destroy.find(target(cli), cli.state, table)
    return destroy.execute(target(cli), cli.state, found, abandon=abandon)


def shards(addresses: list[str]) -> list[str]:
    return [word for address in addresses for word in ("--shard", address)]


def test_from_create_to_destroy(cli: CommandLine, addresses: list[str]) -> None:
    done = cli.run("shards", "create", *shards(addresses), "--rows", str(ROWS), check=True)
    assert done.stdout.startswith("t_demo: 2 shards, 500 rows each, 1,000 in all")
    result = cli.json("shards", "query", "--rounds", "1")
    assert sum(int(number) for _, number in result["answer"]) == 2 * ROWS
    assert result["plan"].count("Async Foreign Scan") == 2
    # a second table beside it, of bigger groups
    assert cli.json("shards", "create", *shards(addresses), "--table", "t_demo_too", "-r", "10")["rows"] == 20
    report = cli.json("shards", "status", "--table", "t_demo_too")
    assert [shard["rows"] for shard in report["shards"]] == [10, 10]
    assert [shard["own"] for shard in report["shards"]] == [False, False]
    assert cli.run("shards", "start", check=True).stdout == "0 started\n"
    assert cli.json("shards", "destroy", "--yes", "--table", "t_demo_too")["abandoned"] == []
    assert cli.json("shards", "query", "--rounds", "1")["checked"]
    assert cli.json("shards", "destroy", "--yes") == {
        "table": "t_demo",
        "shards": 2,
        "own_servers": 0,
        "abandoned": [],
    }


def test_the_same_rows_as_one_server_would_have(cli: CommandLine, addresses: list[str], cluster: Cluster) -> None:
    """With whole blocks, a set has what `rows load` makes of the same seed."""
    make(cli, addresses, rows=50_000, seed=3)
    with servers.new_database(cluster, "single") as name:
        single = connect.target(dbname=cluster.conninfo(name))
        load.execute(single, load.Request(100_000, seed=3), observe=nobody, say=lambda line: None)
        query = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM public.t_demo t"
        with single.connect() as one_server, cli.connect() as many:
            assert one(one_server, query) == one(many, query)
    remove(cli)


@pytest.mark.parametrize(
    "text", [f"host=db1 password={SECRET}", f"postgresql://me:{SECRET}@db1/x", f"sslpassword={SECRET}"]
)
def test_secrets_are_no_arguments(text: str) -> None:
    with pytest.raises(UserError, match="has a password in it") as raised:
        members.resolve([text], "t")
    assert SECRET not in f"{raised.value} {raised.value.hint}"
    assert "passfile" in str(raised.value.hint)


def test_a_string_that_is_none_is_not_repeated() -> None:
    with pytest.raises(UserError, match="not one libpq understands") as raised:
        members.resolve([f"host=db1 passwort={SECRET}"], "t")
    assert SECRET not in f"{raised.value} {raised.value.hint}"
    assert raised.value.__suppress_context__


@pytest.fixture
def guarded(cluster: Cluster, databases: list[str]) -> Iterator[str]:
    """A role that needs its password to get to the shards."""
    rules = cluster.data / "pg_hba.conf"
    before = rules.read_text()
    with cluster.connect() as conn:
        conn.execute(f"CREATE ROLE keeper SUPERUSER LOGIN PASSWORD '{SECRET}'")
        rules.write_text(f"local all keeper scram-sha-256\n{before}")
        conn.execute("SELECT pg_reload_conf()")
        wrong = make_conninfo(cluster.conninfo(databases[0]), user="keeper", password="wrong")
        try:
            until(lambda: refused(wrong), "the new rules")
            yield "keeper"
        finally:
            rules.write_text(before)
            conn.execute("SELECT pg_reload_conf()")
            until(lambda: not refused(wrong), "the old rules")
            for name in databases:
                with cluster.connect(name) as there:
                    there.execute("DROP OWNED BY keeper")
            conn.execute("DROP ROLE keeper")


def refused(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return True
    return False


@pytest.fixture
def passfile(cli: CommandLine) -> Path:
    path = cli.state / "pass file"
    path.write_text(f"*:*:*:keeper:{SECRET}\n")
    path.chmod(0o600)
    user = server_user()
    if user is not None:
        # the coordinator's server reads it, too
        os.chown(path, user.pw_uid, user.pw_gid)
    return path


def test_a_passfile_and_no_other_place_has_the_password(
    cli: CommandLine, cluster: Cluster, addresses: list[str], guarded: str, passfile: Path
) -> None:
    given = [make_conninfo(address, user=guarded, passfile=str(passfile)) for address in addresses]
    log = cluster.log.stat().st_size
    with cli.connect() as conn:
        conn.execute("SET log_statement = 'all'")
        cli.environment["PGOPTIONS"] = "-c log_statement=all"
        outcome = cli.run("shards", "create", *shards(given), "--rows", str(ROWS), "--json", check=True)
        answered = cli.run("shards", "query", "--rounds", "1", "--plan", check=True)
        seen = [outcome.stdout, outcome.stderr, answered.stdout, answered.stderr]
        seen += [path.read_text() for path in (cli.state / "shards").rglob("*.json")]
        seen += [str(conn.execute("SELECT srvoptions FROM pg_foreign_server").fetchall())]
        seen += [str(conn.execute("SELECT umoptions FROM pg_user_mapping").fetchall())]
        with cluster.log.open() as file:
            file.seek(log)
            seen.append(file.read())
    assert "CREATE USER MAPPING" in seen[-1]
    assert str(passfile) in "".join(seen)
    assert SECRET not in "".join(seen)
    del cli.environment["PGOPTIONS"]
    remove(cli)


def test_a_wrong_password(cli: CommandLine, addresses: list[str], guarded: str, passfile: Path) -> None:
    passfile.write_text("*:*:*:keeper:wrong\n")
    given = [addresses[0], make_conninfo(addresses[1], user=guarded, passfile=str(passfile))]
    with pytest.raises(UserError, match=r"shard t_demo_2 \(.*\) cannot be reached: .*password") as raised:
        make(cli, given)
    assert raised.value.status == 2


def test_a_coordinator_that_does_not_get_through(cli: CommandLine, addresses: list[str]) -> None:
    """The program finds the service, the coordinator's server does not: nothing is left."""
    services = cli.state / "services"
    services.write_text("[second]\n" + "".join(f"{k}={v}\n" for k, v in conninfo_to_dict(addresses[1]).items()))
    cli.environment["PGSERVICEFILE"] = str(services)
    done = cli.run("shards", "create", "--shard", addresses[0], "--shard", "second", "--rows", "10")
    failed(done, 2, "the coordinator cannot use shard t_demo_2 (service=second user=postgres)", "service file")
    assert 'definition of service "second" not found' in done.stderr


def test_what_cannot_be_shards(cli: CommandLine, addresses: list[str], cluster: Cluster) -> None:
    with pytest.raises(UserError, match="are the same database"):
        make(cli, [addresses[0], addresses[1], addresses[0]])
    with pytest.raises(UserError, match="is the coordinator's own database"):
        make(cli, [addresses[0], cli.conninfo])
    with pytest.raises(UserError, match="cannot be reached"):
        make(cli, [addresses[0], cluster.conninfo("no_such_database")])
    with cluster.connect() as conn:
        conn.execute("CREATE ROLE commoner LOGIN")
        try:
            common = connect.target(dbname=cli.conninfo, username="commoner")
            with pytest.raises(UserError, match="role commoner is no superuser"):
                create.execute(common, cli.state, create.Request(10, given=(addresses[0],)), observe=nobody, say=print)
        finally:
            conn.execute("DROP ROLE commoner")
    for wrong in ({"rows": 0}, {"groups": 0}, {"given": (), "count": 0}, {"given": (), "count": 1001}):
        with pytest.raises(UserError, match=r"there can be|a shard can have"):
            make(cli, addresses, **wrong)
    with pytest.raises(UserError, match="too long a name"):
        make(cli, addresses, table="t" * 51)
    failed(cli.run("shards", "create", "-n", "2", "--shard", "x"), 1, "--count makes servers, --shard uses yours")


def test_a_table_that_is_there_stays(cli: CommandLine, addresses: list[str]) -> None:
    with psycopg.connect(addresses[1], autocommit=True) as there, cli.connect() as conn:
        for place, error in ((there, 'has a table "t_demo" already'), (conn, 'a table "t_demo" exists already')):
            place.execute("CREATE TABLE t_demo AS SELECT 1 AS mine")
            with pytest.raises(UserError, match=error):
                make(cli, addresses)
            assert one(place, "SELECT mine FROM t_demo") == 1
            place.execute("DROP TABLE t_demo")
        conn.execute("CREATE SERVER t_demo_2 FOREIGN DATA WRAPPER pgbillion_fdw")
        with pytest.raises(UserError, match='server "t_demo_2" already exists'):
            make(cli, addresses)
        assert everything(conn) == ["server t_demo_2"]
        conn.execute("DROP SERVER t_demo_2")


def test_only_what_it_made_is_dropped(cli: CommandLine, addresses: list[str]) -> None:
    make(cli, addresses)
    with psycopg.connect(addresses[0], autocommit=True) as there, cli.connect() as conn:
        there.execute("DROP TABLE t_demo; CREATE TABLE t_demo AS SELECT 1 AS mine")
        conn.execute("CREATE VIEW mine AS SELECT count(*) FROM t_demo")
        # what depends on it is not dropped with it, and nothing else is then
        with pytest.raises(psycopg.errors.DependentObjectsStillExist):
            remove(cli)
        assert one(conn, "SELECT count(*) FROM pg_foreign_server") == 2
        conn.execute("DROP VIEW mine")
        conn.execute("CREATE FOREIGN TABLE other (id int) SERVER t_demo_1")
        with pytest.raises(psycopg.errors.DependentObjectsStillExist):
            remove(cli)
        conn.execute("DROP FOREIGN TABLE other")
        remove(cli)
        assert one(there, "SELECT mine FROM t_demo") == 1
        there.execute("DROP TABLE t_demo")


def test_a_load_that_fails_leaves_nothing(cli: CommandLine, addresses: list[str]) -> None:
    with psycopg.connect(addresses[1], autocommit=True) as there:
        there.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF new.id > 900 THEN"
            " RAISE 'no more of this'; END IF; RETURN new; END$$;"
            "CREATE FUNCTION attach() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN"
            " CREATE TRIGGER refuse BEFORE INSERT ON public.t_demo FOR EACH ROW EXECUTE FUNCTION public.refuse();"
            " END$$;"
            "CREATE EVENT TRIGGER attach ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION attach()"
        )
        done = cli.run("shards", "create", *shards(addresses), "--rows", str(ROWS), "--local")
        assert done.returncode == 3, done.stderr
        assert "error: no more of this" in done.stderr
        assert "removing what was made" in done.stderr
        there.execute("DROP EVENT TRIGGER attach; DROP FUNCTION attach, refuse")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle(cli: CommandLine, addresses: list[str], number: int) -> None:
    with cli.connect() as conn, cli.started("shards", "create", *shards(addresses), "--rows", "20M") as process:
        until(lambda: one(conn, "SELECT count(*) >= 2 FROM pg_stat_progress_copy"), "all sessions to copy")
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 130, stderr
        assert "error: interrupted" in stderr


def test_killed_in_the_middle(cli: CommandLine, addresses: list[str]) -> None:
    with cli.connect() as conn:
        with cli.started("shards", "create", *shards(addresses), "--rows", "20M") as process:
            until(lambda: one(conn, "SELECT count(*) >= 2 FROM pg_stat_progress_copy"), "all sessions to copy")
            process.kill()
            process.wait()
        until(lambda: one(conn, "SELECT count(*) = 0 FROM pg_stat_progress_copy"), "the sessions to be gone")
        with pytest.raises(UserError, match="were not completed") as raised:
            record.find(conn, cli.state, load.TABLE)
        assert "shards destroy" in str(raised.value.hint)
        with pytest.raises(UserError, match="not completed"):
            make(cli, addresses)
    remove(cli)


def test_a_shard_that_is_gone(cli: CommandLine, cluster: Cluster, addresses: list[str]) -> None:
    with servers.new_database(cluster, "passing") as name:
        make(cli, [addresses[0], cluster.conninfo(name)])
    found = destroy.find(target(cli), cli.state, load.TABLE)
    first, second = status.ask(found)
    assert (first.well, first.rows) == (True, ROWS)
    assert not second.well
    assert "passing" in str(second.error)
    with pytest.raises(UserError, match=r"shard t_demo_2 .* cannot be reached") as raised:
        remove(cli)
    assert "--abandon" in str(raised.value.hint)
    assert raised.value.status == 2
    assert remove(cli, abandon=True).abandoned == ("t_demo_2",)


def test_a_coordinator_that_is_gone(cli: CommandLine, cluster: Cluster, addresses: list[str]) -> None:
    with servers.new_database(cluster, "passing") as name:
        passing = connect.target(dbname=cluster.conninfo(name))
        request = create.Request(ROWS, given=(addresses[0],))
        made = create.execute(passing, cli.state, request, observe=nobody, say=lambda line: None).made
    lost = cli.run("shards", "destroy", "--yes")
    failed(lost, 1, 'there are no shards of a table "t_demo"', f"set {made.id} is of t_demo")
    assert "there are: " + made.id in cli.run("shards", "destroy", "--yes", "--set", "nothing").stderr
    with pytest.raises(UserError, match="of another coordinator, in a database passing"):
        destroy.execute(target(cli), cli.state, made)
    # by way of another database, or of none
    done = cli.run("shards", "destroy", "--yes", "--set", made.id, "--abandon", check=True)
    assert "left as it is: what is on the coordinator" in done.stdout


def test_a_shard_that_lost_its_table(cli: CommandLine, addresses: list[str]) -> None:
    make(cli, addresses)
    with psycopg.connect(addresses[0], autocommit=True) as there:
        there.execute("DROP TABLE t_demo")
    done = cli.run("shards", "status")
    failed(done, 2, 'there is no table "t_demo"')
    assert "broken" in done.stdout
    remove(cli)


def test_a_schema_of_ones_own(cli: CommandLine, cluster: Cluster, addresses: list[str]) -> None:
    """The tables are where search_path says, on the coordinator and on each shard."""
    with psycopg.connect(addresses[0], autocommit=True) as there, cli.connect() as conn:
        there.execute('CREATE SCHEMA "s 1"')
        conn.execute('CREATE SCHEMA "Own"')
        cli.environment["PGOPTIONS"] = '-c search_path="Own"'
        given = [
            make_conninfo(addresses[0], options='-c search_path="s\\ 1"'),
            make_conninfo(addresses[1], options="-c search_path=public"),
        ]
        cli.run("shards", "create", *shards(given), "--rows", str(ROWS), check=True)
        assert one(there, 'SELECT count(*) FROM "s 1".t_demo') == ROWS
        result = cli.json("shards", "query", "--rounds", "1")
        assert result["query"] == 'SELECT grp, count(data) FROM "Own"."t_demo" GROUP BY 1'
        assert (result["checked"], result["partitions"]) == (True, 2)
        assert one(conn, 'SELECT count(*) FROM "Own".t_demo') == 2 * ROWS
        remove(cli)
        assert sorted(everything(conn)) == []
        there.execute('DROP SCHEMA "s 1"')
        conn.execute('DROP SCHEMA "Own"')


def test_every_command_has_an_example() -> None:
    names = [command.callback.__name__ for command in shard_commands.app.registered_commands if command.callback]
    assert set(names) >= {"create", "status", "query", "scale", "start", "stop", "destroy"}
    for command in shard_commands.app.registered_commands:
        assert command.callback is not None
        assert f"Example: pgbillion shards {command.callback.__name__}" in (command.callback.__doc__ or "")


def test_names_are_quoted(cli: CommandLine, addresses: list[str]) -> None:
    make(cli, addresses, table='odd "t_demo')
    found = destroy.find(target(cli), cli.state, 'odd "t_demo')
    with psycopg.connect(addresses[0]) as there:
        assert (
            one(there, sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(found.table)).as_string(there)) == ROWS
        )
    remove(cli, 'odd "t_demo')
