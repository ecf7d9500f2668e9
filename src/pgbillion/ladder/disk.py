"""A file system in a file: made, mounted, grown and taken away again, which only root can do.

The file's space is reserved before there is a file system in it, so that a server on it can run out of space, which it
reports, but never of the disk below, which it would see as a broken device. A loop device that is mounted is detached
at once: the kernel then lets go of it when it is unmounted, by us or by anybody else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.server.extension import how_to_install

_BUSY_SECONDS, _POLL_SECONDS = 20.0, 0.2
# what mkfs.xfs refuses to make, and what a server needs anyhow
SMALLEST = 1024**3
# programs of the system's are not in everybody's PATH
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"


class Kind(StrEnum):
    """File systems that can be made."""

    BTRFS = "btrfs-zstd"
    XFS = "xfs"
    EXT4 = "ext4"

    @property
    def program(self) -> str:
        """The program that makes one."""
        return "mkfs.btrfs" if self is Kind.BTRFS else f"mkfs.{self}"

    @property
    def package(self) -> str:
        """The package that has this program, as Debian names it."""
        return {Kind.BTRFS: "btrfs-progs", Kind.XFS: "xfsprogs", Kind.EXT4: "e2fsprogs"}[self]

    @property
    def options(self) -> str:
        """Options of mount."""
        # the file's space stays reserved: nothing is discarded, and ext4 does not zero its inode tables, which a loop
        # device does by giving back their space
        return {
            Kind.BTRFS: "noatime,nodiscard,compress=zstd:1",
            Kind.XFS: "noatime",
            Kind.EXT4: "noatime,nodiscard,noinit_itable",
        }[self]


@dataclass(frozen=True)
class Disk:
    """A file system of a kind in the file ``image``, mounted on the directory ``mount`` or not."""

    kind: Kind
    image: Path
    mount: Path

    def check(self) -> None:
        """Raise UserError unless it can be made here."""
        if os.geteuid() != 0:
            raise UserError(
                f"only root can make and mount a file system, as --filesystem {self.kind} asks for",
                "run it as root; or leave --filesystem out, or name a directory on a file system that you have mounted"
                " with --directory",
            )
        for program, package in ((self.kind.program, self.kind.package), ("losetup", "mount"), ("mount", "mount")):
            if _find(program) is None:
                raise UserError(f"there is no program {program} on this machine", how_to_install([package]))

    def make(self, size: int, inodes: int | None) -> None:
        """Reserve the file's space and make the file system, with room for a number of files if its kind has a limit.

        Raises UserError when that fails; then there is no file.
        """
        self.check()
        try:
            _reserve(self.image, size)
            options = {
                # one copy of the metadata: nothing here is to survive a broken disk
                Kind.BTRFS: ["-q", "-m", "single", "--nodiscard"],
                Kind.XFS: ["-q", "-K"],
                Kind.EXT4: ["-q", "-F", "-m", "0", "-E", "nodiscard", *(["-N", str(inodes)] if inodes else [])],
            }[self.kind]
            done = _run(self.kind.program, *options, str(self.image))
            if done.returncode != 0:
                raise UserError(
                    f"{self.kind.program} failed: {_said(done)}",
                    f"choose another size with --size, which has to be {text.size(SMALLEST)} or more",
                )
        except BaseException:
            self.image.unlink(missing_ok=True)
            raise

    def mounted(self) -> bool:
        """Tell whether the file system is mounted. Raises UserError when another one is mounted in its place."""
        found = [one.device for one in psutil.disk_partitions(all=True) if Path(one.mountpoint) == self.mount]
        if not found:
            return False
        # of several, the last one is seen
        if not self._is_ours(found[-1]):
            raise UserError(
                f"{found[-1]} is mounted on {self.mount}, where the ladder's own file system belongs",
                f"unmount it first: umount {self.mount}",
            )
        return True

    def attach(self) -> None:
        """Mount it; fine if that is done. Raises UserError."""
        if self.mounted():
            return
        self.check()
        if not self.image.exists():
            raise UserError(f"the file of the ladder's file system is gone: {self.image}")
        # what was to be zero may have become a hole
        _reserve(self.image, self.image.stat().st_size)
        self.mount.mkdir(exist_ok=True)
        device = self._loop()
        try:
            done = _run("mount", "-t", self._type, "-o", self.kind.options, device, str(self.mount))
            if done.returncode != 0:
                raise UserError(
                    f"the file system cannot be mounted: {_said(done)}",
                    "the kernel may lack it, or a container may not mount: choose another --filesystem, or a directory"
                    " on a file system that you have mounted with --directory",
                )
        finally:
            # from now on it lasts as long as it is mounted
            _run("losetup", "--detach", device)

    def detach(self) -> None:
        """Unmount it; fine if that is done, also when something is left of a command that was killed."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while self.image.exists() and self.mounted():
            done = _run("umount", str(self.mount))
            if done.returncode != 0 and time.monotonic() > deadline:
                raise UserError(
                    f"the ladder's file system cannot be unmounted: {_said(done)}",
                    f"end what uses it, which fuser -vm {self.mount} lists, and try again",
                )
            if done.returncode != 0:
                # the last of a server's processes may be leaving it yet
                time.sleep(_POLL_SECONDS)
        for device in self._devices():
            _run("losetup", "--detach", device)
        with contextlib.suppress(OSError):
            self.mount.rmdir()

    def grow(self, size: int) -> None:
        """Reserve more for the file, which is not mounted, and have the file system use it; it is mounted then."""
        _reserve(self.image, size)
        if self.kind is Kind.EXT4:
            # mounted, it would take a capability that root has not everywhere; checked, because resize2fs insists
            self._change("e2fsck", "-f", "-p", str(self.image), most=1)
            self._change("resize2fs", str(self.image))
        self.attach()
        if self.kind is Kind.BTRFS:
            self._change("btrfs", "filesystem", "resize", "max", str(self.mount))
        elif self.kind is Kind.XFS:
            self._change("xfs_growfs", str(self.mount))

    def _change(self, program: str, *arguments: str, most: int = 0) -> None:
        """Run a program of the file system's. Raises UserError when its status is more than ``most``."""
        done = _run(program, *arguments)
        if done.returncode > most:
            raise UserError(f"the file system cannot be made larger: {program}: {_said(done)}")

    @property
    def _type(self) -> str:
        return self.kind.partition("-")[0]

    def _loop(self) -> str:
        """Attach the file to a loop device, past the page cache if the disk below can do that."""
        for options in (("--direct-io=on",), ()):
            done = _run("losetup", "--find", "--show", *options, str(self.image))
            if done.returncode == 0:
                return done.stdout.strip()
        raise UserError(
            f"there is no loop device for {self.image}: {_said(done)}",
            "a container may not have any: name a directory on a file system that you have mounted with --directory",
        )

    def _devices(self) -> list[str]:
        """Return the loop devices that are attached to the file."""
        if not self.image.exists() or os.geteuid() != 0 or _find("losetup") is None:
            return []
        return _run("losetup", "--noheadings", "--output", "NAME", "--associated", str(self.image)).stdout.split()

    def _is_ours(self, device: str) -> bool:
        with contextlib.suppress(OSError):
            backing = Path("/sys/block", Path(device).name, "loop", "backing_file").read_text().rstrip("\n")
            return Path(backing) == self.image.resolve()
        return False


def _reserve(image: Path, size: int) -> None:
    """Make a file as long as that, or longer, with its space on disk."""
    try:
        descriptor = os.open(image, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserError(
            f"{text.size(size)} cannot be reserved for {image}: {error.strerror}",
            "make room there, or choose a directory on another disk with --state-dir or PGBILLION_STATE",
        ) from error


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_SYSTEM}")


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = _find(program)
    if found is None:
        raise UserError(f"there is no program {program} on this machine")
    return subprocess.run(
        [found, *arguments],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"status {done.returncode}"
