"""The command `ottla`.

`serve`, `gateway` and `tap` do not import the command line's libraries (Typer, Rich, Pydantic), which would add to a broker's start time
and be a third of a gateway's memory. A new command is one line in COMMANDS: its name, and where its Typer app (several sub-commands) or
function (one command) is. Only the requested command's module is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli.basics import EXIT_NO_RESULT
from ottla.broker.cli.kafka_tools import TOOLS, named, run

if TYPE_CHECKING:
    import typer

COMMANDS = {
    "serve": "ottla.broker.cli.serve:serve",
    "fork": "ottla.broker.cli.fork:fork_",
    "format": "ottla.broker.cli.format:format_",
    "health": "ottla.broker.cli.health:health",
    "cluster": "ottla.broker.cli.cluster_status:app",
    "topics": "ottla.broker.cli.topics:app",
    "groups": "ottla.broker.cli.groups:app",
    "transactions": "ottla.broker.cli.transactions:app",
    "users": "ottla.broker.cli.users:app",
    "acls": "ottla.broker.cli.acls:app",
    "faults": "ottla.broker.cli.faults:app",
    "clock": "ottla.broker.cli.faults:clock",
    "marks": "ottla.broker.cli.faults:marks",
    "gateway": "ottla.broker.cli.gateway:gateway",
    "tap": "ottla.broker.cli.gateway:tap",
    "verify": "ottla.broker.cli.verify:verify",
    "produce": "ottla.broker.cli.produce:produce",
    "consume": "ottla.broker.cli.consume:consume",
    "dump-log": "ottla.broker.cli.dump_log:dump_log",
    "releases": "ottla.broker.cli.releases:list_releases",
    "audit": "ottla.broker.cli.audit:audit",
    "explain": "ottla.broker.cli.audit:explain",
    "dedup": "ottla.broker.cli.audit:dedup",
}


WITH_COMMAND_CONFIG = ("audit", "explain", "dedup", "verify")
"""The commands that connect to clusters with security settings from their own option --command-config. Its default is the file given by
`ottla --config`."""
EXIT_INTERRUPTED = 130
_STDERR = 2


def main() -> None:
    """Run the command `ottla` with this process's arguments. If the program was started by a link with the name of a Kafka tool, such as
    `kafka-topics`, run that tool instead. Ends with exit code 130 after Ctrl-C."""
    _open_standard_streams()
    try:
        tool = named(sys.argv[0])
        _run(sys.argv[1:] if tool is None else [tool, *sys.argv[1:]])
    except KeyboardInterrupt:  # caught here because it may arrive anywhere, for instance during an import
        raise SystemExit(EXIT_INTERRUPTED) from None


def _open_standard_streams() -> None:
    """Open the null device for each standard stream that the parent process has closed (`>&-`). Otherwise the event loop or a file would
    get its descriptor: libuv aborts the process when it closes one below 3, and error messages of C libraries would go to the file."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)


def _run(argv: list[str]) -> None:
    if argv[:1] == ["serve"]:
        gc.disable()  # objects made at start stay alive; `ottla.broker.process` runs one collection once the broker serves
        from ottla.broker.cli.serve import main as serve  # noqa: PLC0415 # the serving path imports nothing else of this package

        raise SystemExit(serve(argv[1:]))
    if argv[:1] in (["gateway"], ["tap"]):
        from ottla.broker.cli import gateway  # noqa: PLC0415 # only the requested command

        raise SystemExit((gateway.main if argv[0] == "gateway" else gateway.tap_main)(argv[1:]))
    if argv[:1] == ["--config"] and argv[2:3] == ["health"]:
        argv = ["health", *argv[:2], *argv[3:]]
    if argv[:1] == ["health"]:
        from ottla.broker.cli.health import main as health  # noqa: PLC0415 # health checks run every few seconds and import little

        raise SystemExit(health(argv[1:]))
    if argv and argv[0] in TOOLS:
        raise SystemExit(run(argv[0], argv[1:]))
    app = _typer_app(argv)
    try:
        app()
    except Exception as bug:  # noqa: BLE001 # a bug must not end with exit code 1, which means "violations found"
        sys.excepthook(type(bug), bug, bug.__traceback__)
        raise SystemExit(EXIT_NO_RESULT) from None


def _typer_app(argv: list[str]) -> typer.Typer:
    import typer  # noqa: PLC0415 # not on the serving path

    from ottla.broker.cli.common import ExtraMissing  # noqa: PLC0415 # not on the serving path

    defaults: dict[str, dict[str, str]] = {}
    app = typer.Typer(
        name="ottla",
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        add_completion=True,
        context_settings={"default_map": defaults},
    )
    version = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    config = typer.Option(
        None, "--config", envvar="OTTLA_CLIENT_CONFIG", metavar="FILE", help="Client security settings, as in Kafka's client.properties."
    )

    @app.callback()
    def ottla(version: bool = version, config: Path | None = config) -> None:
        """A Kafka broker in Python, and the tools around it."""
        if config is not None:
            defaults.update({name: {"command_config": str(config)} for name in WITH_COMMAND_CONFIG})
            from ottla.broker.cli.common import command  # noqa: PLC0415 # not on the serving path
            from ottla.broker.cli.security import use  # noqa: PLC0415 # only where it is given

            command(use)(config)

    at = 2 if argv[:1] == ["--config"] else 0
    chosen = [name for name in COMMANDS if name in argv[at : at + 1]]
    for name in chosen or COMMANDS:
        module_name, _, attribute = COMMANDS[name].partition(":")
        try:
            found = getattr(import_module(module_name), attribute)
        except ExtraMissing as missing:
            if chosen:
                print(f"ottla {name} {missing}", file=sys.stderr)
                raise SystemExit(EXIT_NO_RESULT) from None
            app.command(name, help=f"Needs the extra '{missing.extra}', which is not installed; `ottla {name}` says how to install it.")(
                lambda: None
            )
            continue
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version  # noqa: PLC0415 # only where it is asked for

        print(f"ottla {version('ottla')}")
        raise SystemExit
