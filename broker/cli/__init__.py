"""The command `ottla`. `serve` starts without the command line's libraries (Typer, Rich): a broker listens 0.4 s after its process began.

A new command is one line in COMMANDS: its name and where its Typer app (several sub-commands) or function (one command) is. Only the module
of the command that was asked for is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

COMMANDS = {
    "serve": "broker.cli.serve:serve",
    "health": "broker.cli.health:health",
    "topics": "broker.cli.topics:app",
    "groups": "broker.cli.groups:app",
    "transactions": "broker.cli.transactions:app",
    "faults": "broker.cli.faults:app",
    "clock": "broker.cli.faults:clock",
    "verify": "broker.cli.verify:verify",
    "produce": "broker.cli.produce:produce",
    "consume": "broker.cli.consume:consume",
    "dump-log": "broker.cli.dump_log:dump_log",
    "audit": "broker.cli.audit:audit",
    "explain": "broker.cli.audit:explain",
    "dedup": "broker.cli.audit:dedup",
}


def main() -> None:
    """Entry point of the console script."""
    argv = sys.argv[1:]
    if argv[:1] == ["serve"]:
        from broker.cli.serve import main as serve  # noqa: PLC0415 # the serving path imports nothing else of this package

        raise SystemExit(serve(argv[1:]))
    if argv[:1] == ["health"]:
        from broker.cli.health import main as health  # noqa: PLC0415 # asked every few seconds: as light as the serving path

        raise SystemExit(health(argv[1:]))
    _run_typer(argv)


def _run_typer(argv: list[str]) -> None:
    import typer  # noqa: PLC0415 # not on the serving path

    app = typer.Typer(name="ottla", no_args_is_help=True, pretty_exceptions_show_locals=False, add_completion=True)

    @app.callback()
    def ottla() -> None:
        """A Kafka broker in Python, and the tools around it."""

    asked = [name for name in COMMANDS if name in argv[:1]] or list(COMMANDS)
    for name in asked:
        module_name, _, attribute = COMMANDS[name].partition(":")
        if find_spec(module_name) is None:
            continue
        found = getattr(import_module(module_name), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    app()
