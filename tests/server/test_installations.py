"""The private copy of an installation: what a server needs, links and all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import servers
from pgbillion.server import extension, files, postgres
from pgbillion.server.extension import PgConfig
from pgbillion.server.postgres import Installation


def test_a_copy_has_what_links_lead_to() -> None:
    with servers.temporary_folder() as where:
        base = where / "postgresql"
        for folder in ("bin", "lib/pgxs", "share/extension"):
            (base / folder).mkdir(parents=True)
        (base / "bin" / "postgres").write_text("server")
        (base / "lib" / "libpq.so.5.17").write_text("libpq")
        (base / "lib" / "libpq.a").write_text("not needed")
        (base / "lib" / "libpq.so.5").symlink_to("libpq.so.5.17")
        (base / "lib" / "absolute.so").symlink_to(base / "lib" / "libpq.so.5.17")
        (base / "lib" / "gone.so").symlink_to("nowhere")
        values = {"BINDIR": f"{base}/bin", "PKGLIBDIR": f"{base}/lib", "SHAREDIR": f"{base}/share"}
        facts = PgConfig(
            base / "bin" / "pg_config", "17.11", 170011, {name: str(path) for name, path in values.items()}
        )
        copy = postgres._copy(facts, where / "home")
        assert {path.name for path in (copy / "lib").iterdir()} == {"libpq.so.5.17", "libpq.so.5", "absolute.so"}
        assert (copy / "lib" / "libpq.so.5").read_text() == "libpq"
        assert (copy / "share" / "extension").is_dir()


def test_a_copy_that_has_the_extension_gets_the_link_for_every_role() -> None:
    """Where the extension was installed, a copy has the library itself in the place of the link to it."""
    with servers.temporary_folder() as where:
        folders = files.Folders(where / "lib", where / "share")
        library = where / "built.so"
        library.write_text("new")
        for _ in range(2):
            files.place(dict.fromkeys(extension.ALL, library), folders)
            link = folders.plugins / "pgbillion_rows.so"
            assert link.is_symlink()
            assert link.read_text() == "new"
            link.unlink()
            link.write_text("old")


def test_files_that_were_removed_are_put_back(
    tmp_path: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was put there last is no reason to do nothing when somebody has removed it."""
    facts = extension.read_pg_config(installation.source)
    libraries = {name: installation.pkglibdir / f"{name}.so" for name in extension.ALL}
    monkeypatch.setattr(files, "libraries", lambda *given: libraries)
    folders = files.Folders(tmp_path / "lib", tmp_path / "share")
    for _ in range(2):
        files.install(facts, tmp_path / "build", folders)
        assert len(files.present(folders)) == 7
        files.remove(folders)
