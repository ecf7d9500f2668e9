"""ALTER EXTENSION … UPDATE: from every version since 0.2.0, with the objects of a fresh CREATE EXTENSION afterwards."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import servers
from harness.extension_objects import described, dumped
from pgbillion.common.paths import extension_source, version
from pgbillion.server import extension
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors

FIRST = "0.2.0"
MADE_UP = "999.0.0"
_numbers = itertools.count(1)


def key(name: str) -> list[int]:
    return [int(word) for word in name.split(".")]


def scripts(name: str) -> set[str]:
    """The versions, as in 0.2.0 or 0.2.0--0.2.1, that an extension has scripts for."""
    return {path.stem.removeprefix(f"{name}--") for path in (extension_source() / name / "sql").glob("*.sql")}


def versions(name: str) -> list[str]:
    return sorted({each for script in scripts(name) for each in script.split("--")}, key=key)


@dataclass(frozen=True)
class Place:
    """A running cluster of an installation of its own, whose folder of extensions is the tests' to write to."""

    cluster: Cluster
    folder: Path

    def write(self, name: str, versions: str, text: str) -> None:
        (self.folder / f"{name}--{versions}.sql").write_text(text, encoding="utf-8")

    def objects(self, name: str, wanted: str, first: str | None = None) -> list[str]:
        """All objects of the extension at a version, created so, or updated to from the first."""
        with servers.new_database(self.cluster, f"upgrade{next(_numbers)}", "UTF8") as database:
            with self.cluster.connect(database) as conn:
                conn.execute(f"CREATE EXTENSION {name} VERSION '{first or wanted}'")
                if first is not None:
                    conn.execute(f"ALTER EXTENSION {name} UPDATE TO '{wanted}'")
            found = dumped(self.cluster, database, self.cluster.installation.program("pg_dump"))
            return [line.replace(database, "DATABASE") for line in found] + described(self.cluster, database, name)


@pytest.fixture(scope="module")
def place(installation: Installation) -> Iterator[Place]:
    with servers.copied_installation(installation, "build") as (mine, root):
        cluster = Cluster(mine, root.parent / "data", root.parent / "s", 5432)
        cluster.init(servers.SETTINGS)
        cluster.start()
        try:
            yield Place(cluster, mine.sharedir / "extension")
        finally:
            cluster.destroy()


def differences(one: list[str], two: list[str]) -> list[str]:
    lines = difflib.unified_diff(one, two, lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize("name", extension.ALL)
def test_every_version_has_a_script_to_the_next(name: str) -> None:
    found = versions(name)
    assert found[0] == FIRST
    assert found[-1] == version()
    assert set(found) | {f"{one}--{two}" for one, two in itertools.pairwise(found)} <= scripts(name)


@pytest.mark.parametrize("name", extension.ALL)
def test_an_updated_extension_is_as_a_fresh_one(place: Place, name: str) -> None:
    newest = version()
    fresh = place.objects(name, newest)
    # what is compared are the objects: functions with their properties, members, privileges, comments
    for part in ("CREATE FUNCTION", "ALTER EXTENSION", "COMMENT ON FUNCTION"):
        assert sum(part in line for line in fresh) > 3, part
    assert sum(f" e extension {name}" in line for line in fresh) > 10
    assert place.objects(name, newest) == fresh
    for older in versions(name)[:-1]:
        assert differences(fresh, place.objects(name, newest, older)) == []


# ---- a version that there is not ----

FUNCTION = "CREATE FUNCTION {0}.f(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1';"
TYPE = "CREATE TYPE {0}.pair AS (one integer, two text);"
# by kind: what the new version has more
NEW = {
    "function": FUNCTION,
    "procedure": "CREATE PROCEDURE {0}.p() LANGUAGE sql AS 'SELECT 1';",
    "aggregate": "CREATE AGGREGATE {0}.a(integer) (SFUNC = int4larger, STYPE = integer, COMBINEFUNC = int4larger);",
    "type": TYPE,
    "cast": "CREATE CAST ({0}.pair AS text) WITH INOUT;",
    "table": "CREATE TABLE {0}.t (i integer DEFAULT 1, CHECK (i > 0)) USING heap;",
    "view": "CREATE VIEW {0}.v AS SELECT i FROM {0}.t;",
    "access method": "CREATE ACCESS METHOD am_{0} TYPE TABLE HANDLER heap_tableam_handler;",
    "trigger function": "CREATE FUNCTION {0}.e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';",
    "event trigger": "CREATE EVENT TRIGGER event_{0} ON sql_drop EXECUTE FUNCTION {0}.e();",
    "comment": "COMMENT ON FUNCTION {0}.f(integer) IS 'the same';",
    "privilege": "REVOKE ALL ON FUNCTION {0}.f(integer) FROM PUBLIC;",
    "column privilege": "GRANT SELECT (i) ON {0}.t TO PUBLIC;",
}
# and what a wrong script to it says instead; first what of it is left out
WRONG = {
    "no procedure": ("procedure", ""),
    "no aggregate": ("aggregate", ""),
    "no cast": ("cast", ""),
    "no view": ("view", ""),
    "no access method": ("access method", ""),
    "no event trigger": ("event trigger", ""),
    "no comment": ("comment", ""),
    "no privilege": ("privilege", ""),
    "no column privilege": ("column privilege", ""),
    "another volatility": ("function", FUNCTION.replace("IMMUTABLE", "STABLE")),
    "another body": ("function", FUNCTION.replace("'SELECT $1'", "'SELECT $1 + 1'")),
    "another parallel safety": ("function", FUNCTION.replace("IMMUTABLE", "IMMUTABLE PARALLEL SAFE")),
    "another cost": ("function", FUNCTION.replace("IMMUTABLE", "IMMUTABLE COST 7")),
    "another setting": ("function", FUNCTION.replace("IMMUTABLE", "IMMUTABLE SET work_mem = '1MB'")),
    "another combine function": ("aggregate", NEW["aggregate"].replace("COMBINEFUNC = int4larger", "PARALLEL = SAFE")),
    "another attribute": ("type", TYPE.replace("two text", "two name")),
    "another default": ("table", NEW["table"].replace("DEFAULT 1", "DEFAULT 2")),
    "another query": ("view", NEW["view"].replace("SELECT i", "SELECT i + 1 AS i")),
    "a cast of another context": ("cast", NEW["cast"].replace(";", " AS ASSIGNMENT;")),
    "a disabled event trigger": (
        "event trigger",
        NEW["event trigger"] + "ALTER EVENT TRIGGER event_{0} DISABLE;",
    ),
    "not a member": ("procedure", NEW["procedure"] + "ALTER EXTENSION {0} DROP PROCEDURE {0}.p();"),
    "another dependency": ("table", NEW["table"] + "ALTER PROCEDURE {0}.p() DEPENDS ON EXTENSION plpgsql;"),
}


def make_up(place: Place, name: str, wrong: tuple[str, str] | None = None) -> None:
    """Write the scripts of the made-up version, the one that updates with something else in it."""
    newest = version()
    text = (extension_source() / name / "sql" / f"{name}--{newest}.sql").read_text(encoding="utf-8")
    update = NEW | ({} if wrong is None else {wrong[0]: wrong[1]})
    place.write(name, MADE_UP, f"{text}\n" + "\n".join(NEW.values()).format(name))
    place.write(name, f"{newest}--{MADE_UP}", "\n".join(update.values()).format(name))


@pytest.fixture(scope="module")
def fresh(place: Place) -> dict[str, list[str]]:
    result = {}
    for name in extension.ALL:
        make_up(place, name)
        result[name] = place.objects(name, MADE_UP)
    return result


@pytest.mark.parametrize("name", extension.ALL)
def test_a_right_script_is_found_right(place: Place, fresh: dict[str, list[str]], name: str) -> None:
    make_up(place, name)
    assert differences(fresh[name], place.objects(name, MADE_UP, version())) == []


@pytest.mark.parametrize("name", extension.ALL)
def test_a_lost_function_is_found(place: Place, fresh: dict[str, list[str]], name: str) -> None:
    """One of the extension's own, dropped on the way."""
    make_up(place, name, ("procedure", f"{NEW['procedure']} DROP FUNCTION {name}.version();"))
    found = differences(fresh[name], place.objects(name, MADE_UP, version()))
    assert any(re.search(rf"^-CREATE FUNCTION {name}\.version\(\)", line) for line in found)
    assert f"-function {name}.version() e extension {name}" in found
    assert not any(line.startswith("+") for line in found)


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_script_is_found(place: Place, fresh: dict[str, list[str]], what: str) -> None:
    name = extension.TABLES
    make_up(place, name, WRONG[what])
    assert differences(fresh[name], place.objects(name, MADE_UP, version()))
