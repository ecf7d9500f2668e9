"""What each profile sets, what that puts at risk, and which of it takes effect at a start of the server only."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


class Profile(enum.StrEnum):
    """How durable a server is while a window is open."""

    FULL = "full"
    ASYNC = "async"
    MINIMAL = "minimal"


@dataclass(frozen=True)
class Setting:
    """A setting and the value a profile wants, in the unit and spelling of pg_settings.

    ``fine`` are other values that serve as well, ``least`` says that any larger number does. ``restart``: the server
    reads it when it starts. ``since`` is the first major version that has it.
    """

    name: str
    value: str
    restart: bool = False
    fine: tuple[str, ...] = ()
    least: bool = False
    since: int = 0

    def satisfied(self, current: str) -> bool:
        """Tell whether the server's value needs no change."""
        if current == self.value or current in self.fine:
            return True
        return self.least and int(current) >= int(self.value)


# What makes a server durable. Other values of synchronous_commit than off all wait for the local disk.
_FSYNC = Setting("fsync", "on")
_PAGES = Setting("full_page_writes", "on")
_COMMIT = Setting("synchronous_commit", "on", fine=("local", "remote_write", "remote_apply"))
_ASYNC = Setting("synchronous_commit", "off")
_REPLICA = Setting("wal_level", "replica", restart=True, fine=("logical",))

PROFILES: Mapping[Profile, tuple[Setting, ...]] = {
    Profile.FULL: (_FSYNC, _PAGES, _COMMIT, _REPLICA),
    Profile.ASYNC: (_FSYNC, _PAGES, _ASYNC, _REPLICA),
    Profile.MINIMAL: (
        Setting("fsync", "off"),
        Setting("full_page_writes", "off"),
        _ASYNC,
        Setting("wal_level", "minimal", restart=True),
        # wal_level = minimal goes with none of these: the server would not start
        Setting("max_wal_senders", "0", restart=True),
        Setting("archive_mode", "off", restart=True),
        Setting("summarize_wal", "off", since=17),
        # work that only disturbs a load; what guards against wraparound goes on
        Setting("autovacuum", "off"),
        Setting("checkpoint_timeout", "3600", least=True),
    ),
}

RISKS: Mapping[Profile, str] = {
    Profile.FULL: "nothing: what is committed is on disk",
    Profile.ASYNC: "a crash of the server or the machine loses the commits of its last moments; nothing is damaged",
    Profile.MINIMAL: (
        "a crash of the machine (power, kernel, reset) can damage all databases of this server beyond repair; "
        "one of the server alone can tear the pages that were being written"
    ),
}
WAL_DIR_RISK = "if the WAL directory is lost, as a tmpfs is with the machine, the server cannot start again"


def settings(profile: Profile, major: int, *, restart: bool = True) -> tuple[Setting, ...]:
    """Return what a profile sets on this major version; without ``restart`` only what a reload is enough for."""
    return tuple(
        setting for setting in PROFILES[profile] if major >= setting.since and (restart or not setting.restart)
    )


def needs_restart(wanted: Iterable[Setting]) -> list[Setting]:
    """Return those of some settings that take effect at a start of the server only."""
    return [setting for setting in wanted if setting.restart]
