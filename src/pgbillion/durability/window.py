"""Windows for other commands: relax a server, do something, put everything back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgbillion.common.target import Target
from pgbillion.durability import relax as durability_relax
from pgbillion.durability import restore as durability_restore
from pgbillion.durability import warning
from pgbillion.durability.checks import Allow
from pgbillion.durability.profiles import Profile
from pgbillion.durability.session import Say


@contextmanager
def relaxed(
    target: Target,
    profile: Profile,
    state: Path,
    say: Say,
    *,
    wal_dir: Path | None = None,
    restart: durability_relax.Restart | None = None,
    allow: frozenset[Allow] = frozenset(),
) -> Iterator[durability_relax.Outcome]:
    """Open a window, and close it whatever happens within; the commands' rules and errors are those of `relax`.

    The server is restarted where a setting needs it, so that no connection may be open on the way in and out, but those
    that may break.
    """
    outcome = durability_relax.relax(target, durability_relax.Request(profile, wal_dir, restart, allow), state, say)
    warning.mute(outcome.record)
    try:
        yield outcome
    finally:
        may = None if restart is None else restart is durability_relax.Restart.NOW
        durability_restore.restore(target, durability_restore.Request(restart=may, allow=allow), state, say)
