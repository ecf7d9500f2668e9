"""Who may stop and start a server: of the embedded one we may, of others on this machine when told so."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.durability.session import Session
from pgbillion.server import embedded
from pgbillion.server.postgres import first_fatal, forget_the_dead, postmaster

_START_SECONDS = 600


class Control(Protocol):
    """A server that may be stopped and started; `postgres.Cluster` is one."""

    @property
    def data(self) -> Path:
        """The data directory."""

    def running(self) -> bool:
        """Tell whether it runs."""

    def start(self) -> None:
        """Start it and wait until it accepts connections. Raises UserError."""

    def stop(self) -> None:
        """Stop it in good order. Raises UserError."""


@dataclass(frozen=True)
class Own:
    """A server of the user's own on this machine, started again as it was before, by pg_ctl as its owner."""

    data: Path
    pg_ctl: str
    configuration: str  # the argument of its -D
    options: str
    log: str | None

    def running(self) -> bool:
        return postmaster(self.data) is not None

    def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            if len(lines) >= 5:
                forget_the_dead(self.data, Path(lines[4], f".s.PGSQL.{lines[3]}.lock"))
        with Path(self.log or os.devnull).open("a", encoding="utf-8") as log:
            before = log.tell() if self.log else 0
            done = self._pg_ctl(
                "start", "-t", str(_START_SECONDS), "-o", self.options, stdout=log, stderr=subprocess.STDOUT
            )
        if done.returncode != 0:
            said = f": {first_fatal(Path(self.log), before)}" if self.log else ""
            raise UserError(
                f"the server did not start{said}", f"its log is {self.log or 'where it always is'}", status=2
            )

    def stop(self) -> None:
        done = self._pg_ctl("stop", "-m", "fast", "-t", str(_START_SECONDS), capture_output=True)
        if done.returncode != 0 and self.running():
            raise UserError("the server did not stop", "sessions or a base backup may hold it")

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return {**asdict(self), "data": str(self.data)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Own:
        """Read what `to_json` wrote."""
        return cls(**{**values, "data": Path(values["data"])})

    def _pg_ctl(self, verb: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        # start needs the folder of the configuration, which may be another than that of the data
        where = self.configuration if verb == "start" else str(self.data)
        owner = self.data.stat().st_uid
        if os.geteuid() == 0:
            user = pwd.getpwuid(owner)
            options |= {"user": owner, "group": user.pw_gid}
            options["extra_groups"] = os.getgrouplist(user.pw_name, user.pw_gid)
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        command = [self.pg_ctl, verb, "--silent", "-D", where, *arguments]
        return subprocess.run(command, cwd="/", env=env, stdin=subprocess.DEVNULL, text=True, check=False, **options)


@dataclass(frozen=True)
class Found:
    """How a server can be restarted: by us (``control``), or, for the ``reason``, only by the ``command``."""

    control: Control | None
    embedded: bool
    reason: str
    command: str
    data: Path | None = None


def find(session: Session, state: Path) -> Found:
    """Look at the server we are connected to."""
    data = Path(session.one("SELECT current_setting('data_directory')"))
    cluster = embedded.find(state)
    if Host.of(session.conn) is None:
        return Found(None, False, "it is on another machine", "restart it there")
    if cluster is not None and cluster.data.exists() and _same(cluster.data, data):
        return Found(
            cluster, True, "", f"{invocation.command('server', 'stop')}; {invocation.command('server', 'start')}", data
        )
    command = f"pg_ctl -D {shlex.quote(str(data))} restart"
    try:
        parent = psutil.Process(session.conn.info.backend_pid).parent()
        if parent is None or parent.pid == 1:
            return Found(None, False, "it is the first process of a container", "restart its container", data)
        unit = _unit(parent.pid)
        if unit:
            return Found(None, False, f"it is run by systemd ({unit})", f"systemctl restart {unit}", data)
        with contextlib.suppress(psutil.AccessDenied, OSError):
            program = shlex.quote(str(Path(parent.exe()).with_name("pg_ctl")))
            command = command.replace("pg_ctl", program, 1)
        command = _as_owner(data) + command
        if os.geteuid() not in (0, data.stat().st_uid):
            return Found(None, False, "it runs as another user", command, data)
        return Found(_own(parent, data), False, "", command, data)
    except (psutil.Error, OSError) as error:
        return Found(None, False, f"how it was started cannot be seen ({error})", command, data)


def _as_owner(data: Path) -> str:
    """Return what a command for the owner of a data directory begins with, unless that is who we are."""
    owner = data.stat().st_uid
    if os.geteuid() == owner:
        return ""
    user = shlex.quote(pwd.getpwuid(owner).pw_name)
    return f"runuser -u {user} -- " if os.geteuid() == 0 else f"sudo -u {user} "


def _own(parent: psutil.Process, data: Path) -> Own:
    program, *arguments = shlex.split((data / "postmaster.opts").read_text(encoding="utf-8"))
    configuration = str(data)
    options = []
    words = iter(arguments)
    for word in words:
        if word == "-D":
            configuration = next(words)
        elif word.startswith("-D"):
            configuration = word[2:]
        else:
            options.append(word)
    if not Path(configuration).is_absolute():
        configuration = str(data)
    pg_ctl = Path(program).with_name("pg_ctl")
    if not pg_ctl.exists():
        pg_ctl = Path(f"/proc/{parent.pid}/exe").readlink().with_name("pg_ctl")
    if not pg_ctl.exists():
        raise FileNotFoundError(f"there is no {pg_ctl}")
    log: str | None = None
    with contextlib.suppress(OSError):
        stderr = Path(f"/proc/{parent.pid}/fd/2").readlink()
        log = str(stderr) if stderr.is_file() else None
    return Own(data, str(pg_ctl), configuration, shlex.join(options), log)


def _unit(pid: int) -> str | None:
    """Return the systemd unit that a process is the business of, when that is one for PostgreSQL."""
    with contextlib.suppress(OSError):
        found = re.search(
            r"/([^/\n]*(?:postgres|pgsql|patroni)[^/\n]*\.service)", Path(f"/proc/{pid}/cgroup").read_text()
        )
        return found[1] if found else None
    return None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
