"""The command line's root: its sub-commands, and the one place where failures become messages and an exit status."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated

import psycopg
import typer

from pgbillion import __version__
from pgbillion.cli import connect
from pgbillion.common import invocation, target
from pgbillion.common.errors import UserError
from pgbillion.common.text import harmless
from pgbillion.durability import warning

# whatever a command connects to, its users are told when it is relaxed
target.watchers.append(warning.warn)

_INTERRUPTED = 130
_DEBUG = "PGBILLION_DEBUG"


# ---- commands: each is imported only if it may be wanted, which saves half of a command's start ----


def _add_server(app: typer.Typer) -> None:
    from pgbillion.cli import server

    app.add_typer(server.app, name="server")


def _add_extension(app: typer.Typer) -> None:
    from pgbillion.cli import extension

    app.add_typer(extension.app, name="extension")


def _add_durability(app: typer.Typer) -> None:
    from pgbillion.cli import durability

    app.add_typer(durability.app, name="durability")


def _add_tables(app: typer.Typer) -> None:
    from pgbillion.cli import tables, tables_drop, tables_list, tables_runs, tables_scale

    tables.app.command("drop")(tables_drop.drop)
    tables.app.command("list")(tables_list.list_tables)
    tables.app.command("runs")(tables_runs.list_runs)
    tables.app.command("scale")(tables_scale.scale)
    app.add_typer(tables.app, name="tables")


def _add_tenants(app: typer.Typer) -> None:
    from pgbillion.cli import (
        tenants,
        tenants_fleet,
        tenants_metrics,
        tenants_move,
        tenants_restore,
        tenants_size,
        tenants_tablespace,
    )

    tenants.app.command("export")(tenants_move.export)
    tenants.app.command("import")(tenants_fleet.import_)
    tenants.app.command("metrics")(tenants_metrics.metrics)
    tenants.app.command("move")(tenants_move.move)
    tenants.app.command("restore")(tenants_restore.restore)
    tenants.app.command("size")(tenants_size.size)
    tenants.app.command("tablespace")(tenants_tablespace.tablespace)
    app.add_typer(tenants.app, name="tenants")


def _add_rows(app: typer.Typer) -> None:
    from pgbillion.cli import rows, rows_columns

    rows.app.command("columns")(rows_columns.rows_columns)
    app.add_typer(rows.app, name="rows")


def _add_shards(app: typer.Typer) -> None:
    from pgbillion.cli import shards

    app.add_typer(shards.app, name="shards")


def _add_demo(app: typer.Typer) -> None:
    from pgbillion.cli import demo

    app.command()(demo.demo)


def _add_cycle(app: typer.Typer) -> None:
    from pgbillion.cli import cycle

    app.command()(cycle.cycle)


def _add_ladder(app: typer.Typer) -> None:
    from pgbillion.cli import ladder

    app.add_typer(ladder.app, name="ladder")


_COMMANDS: dict[str, Callable[[typer.Typer], None]] = {
    "server": _add_server,
    "extension": _add_extension,
    "durability": _add_durability,
    "tables": _add_tables,
    "tenants": _add_tenants,
    "rows": _add_rows,
    "shards": _add_shards,
    "demo": _add_demo,
    "cycle": _add_cycle,
    "ladder": _add_ladder,
}


@functools.cache
def command_line(word: str | None = None) -> typer.Typer:
    """Return the command line: with the one command or group that ``word`` names, or else with all."""
    app = typer.Typer(
        name="pgbillion",
        help="PostgreSQL at a billion: create, list and drop tables by the million, aggregate rows by the "
        "hundred million per second.",
        pretty_exceptions_enable=False,
    )
    for add in [_COMMANDS[word]] if word in _COMMANDS else _COMMANDS.values():
        add(app)
    _reflow(app)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.typer_instance.callback(invoke_without_command=True)(_print_help)
    app.callback(invoke_without_command=True)(_root)
    return app


def _reflow(commands: typer.Typer) -> None:
    """Have help wrapped by the terminal: the end of a docstring's line is a space."""
    for command in commands.registered_commands:
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command.callback) or "")
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _reflow(group.typer_instance)


def _print_help(context: typer.Context) -> None:
    """Print what there is to choose from when nothing was chosen: that is no error."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgbillion {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    _print_help(context)


def main() -> int:
    """Run the command line and return the exit status: psql's, and 130 after Ctrl-C."""
    invocation.forget()
    try:
        # not standalone: it would print errors its own way and end with 2, which is for lost connections here
        status = command_line(sys.argv[1] if len(sys.argv) > 1 else None)(standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        words = context.command_path.removeprefix(context.find_root().command_path) if context is not None else ""
        return _fail(_plain(error.format_message()), f"{invocation.program()}{words} --help")
    except UserError as error:
        return _fail(error.message, error.hint, error.status)
    except psycopg.Error as error:
        return _fail_database(error)
    except UnicodeError as error:
        given = error.object if isinstance(error, UnicodeEncodeError) else ""
        return _fail(f"{given!a} is not text in UTF-8" if given else f"what came is not text in UTF-8: {error}")
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", status=_INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output has gone; without this the interpreter would say so once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}")
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        return _fail(
            f"unexpected {type(error).__name__}: {error}",
            f"this is a bug; with {_DEBUG}=1 it is shown where: report it",
        )
    if status == _INTERRUPTED:
        return _fail("interrupted", status=_INTERRUPTED)
    return status if isinstance(status, int) else 0


def _plain(message: str) -> str:
    """Say what the parser of options says without its own words."""
    plain = message.replace("Value error, ", "").replace("Input should be", "it must be")
    return re.sub(r", unable to parse string as an? [a-z]+", "", plain)


def _fail(message: str, hint: str | None = None, status: int = 1) -> int:
    with contextlib.suppress(BrokenPipeError):
        print(f"error: {_one_line(message)}", file=sys.stderr)
        if hint:
            print(f"hint: {_one_line(hint)}", file=sys.stderr)
    return status


def _fail_database(error: psycopg.Error) -> int:
    """Tell a lost or refused connection from a refused statement."""
    diagnosis = error.diag
    state = error.sqlstate or ""
    if diagnosis.message_primary is None:
        if not isinstance(error, psycopg.OperationalError):
            # psycopg's own: a value that cannot be sent, or one that came and cannot be read
            return _fail(str(error))
        return _fail(*connect.refused(error), 2)
    detail = f" ({diagnosis.message_detail})" if diagnosis.message_detail else ""
    # 08: connection exceptions; 57P01 to 57P03: the server was told to stop, crashed, or is not ready
    lost = state.startswith("08") or state in ("57P01", "57P02", "57P03")
    return _fail(diagnosis.message_primary + detail, diagnosis.message_hint, 2 if lost else 3)


def _one_line(text: str) -> str:
    # what is no text is shown as escapes, whatever stderr takes
    return harmless(" ".join(text.encode(errors="backslashreplace").decode().split()))
