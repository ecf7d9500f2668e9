"""Commands that the program prints: where its code makes them, and people who run them as printed.

A place is named by module, function and words, with * for what is not constant: `tables/run.py find: tables create`.
A private function that only returns a command makes none itself: those that call it do.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import os
import shlex
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pgbillion import cli
from pgbillion.common import invocation
from pgbillion.durability import warning

PACKAGE = Path(cli.__file__).parents[1]
_OWN = "common/invocation.py"
_MAKERS = ("command", "again", "program")
# how the program is called in tests, and what it says of itself then
_MODULE = str(PACKAGE / "__main__.py")
_CALLED = [sys.executable, "-m", "pgbillion"]
_Test = TypeVar("_Test", bound=Callable[..., None])

# places whose commands the test has run
_ran: set[str] = set()

# lines of a call, then columns: what a frame's instruction has, too
_Span = tuple[int, int, int, int]


@dataclass
class _Module:
    """What is known of one: the functions that only return a command, and places by where they are."""

    wrappers: set[str] = field(default_factory=set)
    places: dict[_Span, str] = field(default_factory=dict)


def _calls(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Give every call with the name of the function it is in."""
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{inside}.{child.name}".lstrip(".")
        elif isinstance(child, ast.Call):
            yield inside, child
        yield from _calls(child, name)


def _read(name: str, tree: ast.Module) -> _Module:
    for node in ast.walk(tree):
        # under another name they would not be found
        assert not (isinstance(node, ast.ImportFrom) and str(node.module).endswith("invocation")), name
    makers = {f"invocation.{maker}" for maker in _MAKERS}
    found = _Module()
    while True:
        wrappers = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("_")
            and any(
                isinstance(end, ast.Return)
                and isinstance(end.value, ast.Call)
                and ast.unparse(end.value.func) in makers | found.wrappers
                for end in ast.walk(node)
            )
        }
        if wrappers == found.wrappers:
            break
        found.wrappers = wrappers
    seen: Counter[str] = Counter()
    for inside, call in _calls(tree):
        called = ast.unparse(call.func)
        if called in makers | found.wrappers and inside.rpartition(".")[2] not in found.wrappers:
            # a wrapper's own words are not known here: it is named instead
            words = [called.removeprefix("invocation.")] if called not in (f"invocation.{_MAKERS[0]}",) else []
            words += [str(word.value) if isinstance(word, ast.Constant) else "*" for word in call.args]
            place = f"{name} {inside}: {' '.join(words)}"
            seen[place] += 1
            place += f" ({seen[place]})" if seen[place] > 1 else ""
            assert call.end_lineno is not None
            assert call.end_col_offset is not None
            found.places[call.lineno, call.end_lineno, call.col_offset, call.end_col_offset] = place
    return found


@functools.cache
def _modules() -> Mapping[str, _Module]:
    return {
        name: _read(name, ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := str(path.relative_to(PACKAGE))) != _OWN
    }


def places() -> set[str]:
    """Return every place that makes a command."""
    return {place for module in _modules().values() for place in module.places.values()}


def _place(frame: types.FrameType | None) -> str | None:
    """Return the place that a call comes from; None for one within the module that makes commands."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        name = str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else ""
        if name not in _modules():
            return None
        if frame.f_code.co_name not in _modules()[name].wrappers:
            first, last, start, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
            assert first is not None
            assert last is not None
            assert start is not None
            assert end is not None
            return _modules()[name].places[first, last, start, end]
        frame = frame.f_back
    return None


@dataclass
class Done:
    """What a command has printed, and its status."""

    returncode: int
    stdout: str
    stderr: str


class _Terminal(io.StringIO):
    """Somebody who answers questions."""

    def isatty(self) -> bool:
        return True


@dataclass
class User:
    """Somebody at a shell: the options they type, and their environment.

    What they run, runs in this process, which takes a tenth of the time. ``printed`` has the commands that were
    printed, with the places that made them.
    """

    options: tuple[str, ...]
    environment: dict[str, str]
    printed: dict[str, set[str]] = field(default_factory=dict)

    def run(self, *words: str, behind: tuple[str, ...] = ()) -> Done:
        return self._main([*words, *self.options, *behind])

    def type(
        self, line: str, *more: str, answer: str = "", status: int = 0, put: Mapping[str, str] | None = None
    ) -> str:
        """Run a command as it was printed, and return what it prints.

        ``more`` are words added to it, ``answer`` is to a question, and ``put`` has what stands for NAME and the like.
        """
        made = set(self.printed.get(line, ()))
        if line.endswith(" --help"):
            # behind the program's name alone
            made |= self.printed.get(shlex.join(_CALLED), set())
        assert made, f"{line}\nwas not printed, but {sorted(self.printed)}"
        if "$(" in line:
            done = self._shell(line)
        else:
            words = _words(line.removeprefix("sudo "))
            assert words[:3] == _CALLED, line
            words = [(put or {}).get(word, word) for word in words[3:]]
            if words[:2] == ["server", "psql"]:
                # it becomes psql
                done = self._shell(shlex.join([*_CALLED, *words, *more]))
            else:
                done = self._main([*words, *more], answer)
        assert done.returncode == status, f"{line}\n{done.stderr}"
        _ran.update(made)
        return done.stdout + (done.stderr if status else "")

    def shell(self, line: str, programs: Path | None = None) -> str:
        """Run a command of other programs, some of which may be in a folder, and return what it prints."""
        done = self._shell(line if programs is None else f"PATH={shlex.quote(str(programs))}:$PATH; {line}")
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    def environ(self) -> dict[str, str]:
        """Return the environment of what they run."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "XDG_STATE"))}
        return {**env, "XDG_STATE_HOME": "/nowhere", **self.environment}

    def _shell(self, line: str) -> Done:
        done = subprocess.run(
            line, shell=True, env=self.environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _main(self, words: list[str], answer: str = "") -> Done:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        before = sys.argv, sys.stdin, dict(os.environ)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), self._watched():
            try:
                sys.argv, sys.stdin = [_MODULE, *words], _Terminal(answer) if answer else io.StringIO()
                _put(self.environ())
                # what one process says once
                warning._known.clear()
                status = cli.main()
            finally:
                sys.argv, sys.stdin = before[:2]
                _put(before[2])
        texts = []
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
            texts.append(stream.read())
        return Done(status, *texts)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Take down what is made, and where."""
        made = {name: getattr(invocation, name) for name in _MAKERS}

        def taken(name: str, *given: Any, **more: Any) -> str:
            text = str(made[name](*given, **more))
            # the partial that was called has no frame
            place = _place(sys._getframe(1))
            if place is not None:
                self.printed.setdefault(text, set()).add(place)
            return text

        for name in _MAKERS:
            setattr(invocation, name, functools.partial(taken, name))
        try:
            yield
        finally:
            for name, function in made.items():
                setattr(invocation, name, function)


def _words(line: str) -> list[str]:
    """Split a line as a shell does. Fails where a shell would find more than words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()$`*?!#")
    lexer.whitespace_split = True
    words = list(lexer)
    assert words == shlex.split(line), line
    return words


def _put(environment: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


def runs(*names: str) -> Callable[[_Test], _Test]:
    """Have a test fail unless it runs a command of each of these places as printed."""

    def decorated(test: _Test) -> _Test:
        @functools.wraps(test)
        def checked(*given: Any, **more: Any) -> None:
            _ran.clear()
            test(*given, **more)
            assert set(names) <= _ran, sorted(set(names) - _ran)

        return checked  # type: ignore[return-value]

    return decorated


def run_by_tests(folder: Path) -> set[str]:
    """Return the places whose commands tests say that they run."""
    return {
        str(name.value)
        for path in folder.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == runs.__name__
        for name in mark.args
        if isinstance(name, ast.Constant)
    }
