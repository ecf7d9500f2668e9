"""A release, as .github/workflows/release.yml makes it: its steps exist, and what they check is checked here."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pgbillion import __version__
from pgbillion.server.extension import ALL
from pgbillion.server.postgres import SUPPORTED_MAJORS

PROJECT = Path(__file__).parents[2]
WORKFLOWS = PROJECT / ".github" / "workflows"
RELEASE = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
STEPS = re.findall(r"(?m)^ +- run: (.*)$", RELEASE)
TAG = f"v{__version__}"


def run(
    *command: str | Path, cwd: Path = PROJECT, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(command), cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True)


# ---- the workflow ----


@pytest.mark.quick
def test_every_step_is_a_target_or_a_tool() -> None:
    """Nothing is decided in the workflow: what it runs can be run, and is tested, without it."""
    assert len(STEPS) == RELEASE.count("run: ")
    ours = [step for step in STEPS if not step.startswith(("apt-get ", "gh release create "))]
    targets = {step.split()[1] for step in ours if step.startswith("make ")}
    tools = {name for step in ours for name in re.findall(r"\btools/[\w.]+", step)}
    assert len(ours) == len([step for step in ours if step.startswith("make ") or "tools/" in step])
    assert targets == {"setup", "wheels"}
    assert tools == {"tools/release.py", "tools/pgxn.sh"}
    for name in tools:
        assert (PROJECT / name).exists()
    for target in targets:
        done = run("make", "--dry-run", target, "MACHINE=aarch64")
        assert done.returncode == 0, done.stderr


@pytest.mark.quick
def test_only_what_was_tested_and_verified_is_published() -> None:
    jobs = dict(re.findall(r"(?ms)^  (\w+):\n(.*?)(?=^  \w+:\n|\Z)", RELEASE.partition("\njobs:\n")[2]))
    assert list(jobs) == ["test", "build", "pypi", "github"]
    assert "uses: ./.github/workflows/test.yml" in jobs["test"]
    assert "workflow_call:" in (WORKFLOWS / "test.yml").read_text(encoding="utf-8")
    assert "needs: [test, build]" in jobs["pypi"]
    assert "needs: pypi" in jobs["github"]
    # trusted publishing: the right to ask for an identity in one job, and no password anywhere
    assert [name for name, text in jobs.items() if "id-token: write" in text] == ["pypi"]
    assert "secrets." not in RELEASE
    steps = re.findall(r"release\.py (\w+)", jobs["build"])
    assert steps == ["check", "verify", "notes"]
    assert jobs["build"].index("release.py verify") < jobs["build"].index("upload-artifact")


@pytest.mark.quick
def test_the_tag_and_all_files_reach_the_draft(tmp_path: Path) -> None:
    """The last step, with a `gh` that writes down how it was called."""
    (step,) = [step for step in STEPS if step.startswith("gh ")]
    (tmp_path / "dist").mkdir()
    for name in ("a.whl", "b.tar.gz", "c.zip"):
        (tmp_path / "dist" / name).touch()
    (tmp_path / "gh").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "gh").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REF_NAME": TAG}
    done = run("bash", "-euc", step, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert words[:3] == ["release", "create", TAG]
    assert f"pgbillion {__version__}" in words
    assert words[-3:] == ["dist/a.whl", "dist/b.tar.gz", "dist/c.zip"]


# ---- check ----


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What release.py reads, committed in a repository of its own, with a date in CHANGELOG.md."""
    home = tmp_path / "checkout"
    for name in ("tools/release.py", "CHANGELOG.md"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, home / name)
    text = (home / "CHANGELOG.md").read_text(encoding="utf-8")
    (home / "CHANGELOG.md").write_text(
        re.sub(rf"(?m)^## {re.escape(__version__)} \(.*\)$", f"## {__version__} (2026-12-01)", text)
    )
    run("git", "init", "--quiet", cwd=home)
    commit(home)
    return home


def commit(home: Path) -> None:
    run("git", "add", "--all", cwd=home)
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@localhost", "-c", "commit.gpgsign=false")
    done = run("git", *identity, "commit", "--quiet", "--message=Change", cwd=home)
    assert done.returncode == 0, done.stderr


def release(*arguments: str | Path, home: Path = PROJECT) -> tuple[int, str, str]:
    done = run(sys.executable, home / "tools" / "release.py", *arguments, cwd=home)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.quick
def test_a_dated_version_and_its_tag_pass(checkout: Path) -> None:
    assert release("check", TAG, home=checkout) == (0, "", "")


def edited(pattern: str, replacement: str) -> Callable[[Path], None]:
    def edit(home: Path) -> None:
        path = home / "CHANGELOG.md"
        text, number = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=1)
        assert number == 1
        path.write_text(text, encoding="utf-8")
        commit(home)

    return edit


@pytest.mark.parametrize(
    ("tag", "change", "error"),
    [
        ("v999.0.0", lambda home: None, "the tag is v999.0.0, but"),
        (__version__, lambda home: None, f"the tag is {__version__}, but"),
        (TAG, edited(r"\(2026-12-01\)", "(not released yet)"), "as 'not released yet', not with the date"),
        (TAG, edited(r"## [\d.]+ ", "## 999.0.0 "), "does not begin with changes of"),
        (TAG, lambda home: (home / "new").touch(), "changes that are not committed"),
    ],
)
def test_what_is_not_ready_is_refused(checkout: Path, tag: str, change: Callable[[Path], None], error: str) -> None:
    change(checkout)
    status, output, errors = release("check", tag, home=checkout)
    assert (status, output) == (1, "")
    assert len(errors.splitlines()) == 1
    assert error in errors


@pytest.mark.quick
def test_the_notes_are_the_version_s_changes() -> None:
    status, notes, _ = release("notes")
    assert status == 0
    text = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert len(notes) > 1000
    assert notes.strip() in text
    assert not re.search(r"(?m)^## ", notes)


def test_odd_arguments_are_an_error() -> None:
    for arguments in ((), ("check",), ("publish",)):
        status, _, errors = release(*arguments)
        assert (status, errors.startswith("error: usage: ")) == (1, True)


# ---- verify ----


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that is published, packed by the project's tools around libraries that do nothing."""
    folder = tmp_path_factory.mktemp("release")
    source = folder / "nothing.c"
    # since glibc 2.17, as the oldest that the real libraries need
    source.write_text('extern char *secure_getenv(const char *);\nchar *f(void) { return secure_getenv("A"); }\n')
    library = folder / "nothing.so"
    done = run("cc", "-shared", "-fPIC", "-o", library, source)
    assert done.returncode == 0, done.stderr
    for machine, number, majors in (("x86_64", 62, SUPPORTED_MAJORS), ("aarch64", 183, SUPPORTED_MAJORS[:-1])):
        content = bytearray(library.read_bytes())
        struct.pack_into("<H", content, 18, number)
        for major in majors:
            for name in ALL:
                path = folder / machine / str(major) / f"{name}.so"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        done = run("tools/wheel.sh", folder / machine, folder / "dist", env={"MACHINE": machine})
        assert done.returncode == 0, done.stderr
    done = run("tools/pgxn.sh", folder / "dist")
    assert done.returncode == 0, done.stderr
    return folder / "dist"


@pytest.fixture
def dist(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "dist"))


def test_what_the_tools_pack_is_what_is_published(dist: Path) -> None:
    assert release("verify", dist) == (0, "", "")


@pytest.mark.parametrize("pattern", ["*x86_64.whl", "*aarch64.whl", "*.tar.gz", "*.zip"])
def test_a_missing_file_is_found(dist: Path, pattern: str) -> None:
    (path,) = dist.glob(pattern)
    path.unlink()
    assert release("verify", dist) == (1, "", f"error: {dist} lacks {path.name}\n")


def test_a_file_of_another_version_is_found(dist: Path) -> None:
    (dist / "pgbillion-0.0.1.tar.gz").touch()
    assert release("verify", dist) == (1, "", f"error: {dist} also has pgbillion-0.0.1.tar.gz\n")


def test_a_wheel_for_a_newer_c_library_is_found(dist: Path) -> None:
    (path,) = dist.glob("*x86_64.whl")
    path.rename(dist / path.name.replace("2_17", "2_36"))
    status, _, errors = release("verify", dist)
    assert (status, f"lacks {path.name}" in errors) == (1, True)


def test_what_a_wheel_lacks_is_found(dist: Path) -> None:
    """A library of one major, one for another machine, and the version."""
    (path,) = dist.glob("*x86_64.whl")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    lost = "pgbillion/_libraries/16/pgbillion_rows.so"
    foreign = "pgbillion/_libraries/17/pgbillion_tables.so"
    metadata = f"pgbillion-{__version__}.dist-info/METADATA"
    del content[lost]
    content[foreign] = content[foreign][:18] + struct.pack("<H", 183) + content[foreign][20:]
    content[metadata] = content[metadata].replace(f"Version: {__version__}".encode(), b"Version: 0.0.1")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    status, _, errors = release("verify", dist)
    assert status == 1
    assert errors.splitlines() == [
        f"error: {path.name} has no metadata of {__version__}",
        f"error: {path.name} lacks {lost}",
        f"error: {path.name} has {foreign} for another machine",
    ]


@pytest.mark.parametrize(("pattern", "member"), [("*.tar.gz", "PKG-INFO"), ("*.zip", "META.json")])
def test_an_empty_archive_is_found(dist: Path, pattern: str, member: str) -> None:
    (path,) = dist.glob(pattern)
    command = ["tar", "-czf", str(path), "--files-from=/dev/null"]
    if pattern == "*.zip":
        zipfile.ZipFile(path, "w").close()
    else:
        assert run(*command).returncode == 0
    assert release("verify", dist) == (1, "", f"error: {path.name} lacks pgbillion-{__version__}/{member}\n")
