"""`ottla verify`: verifies exactly-once behaviour of a user's producer, consumer or stream program."""

from __future__ import annotations

import shlex
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from ottla.broker.cli.common import CliError, command, note, print_json, print_table
from ottla.broker.cli.logs import quiet_broker_logs, quiet_client_logs
from ottla.broker.testing.anomalies import Identity
from ottla.broker.testing.verdict import audit_missing
from ottla.broker.testing.wire_verdict import WireSource
from ottla.broker.verification.judge import Result, ScenarioOutcome, identity_of
from ottla.broker.verification.program import CannotStart, Program, Role
from ottla.broker.verification.report import COLUMNS, as_json, explanations, rows, summary, write_junit
from ottla.broker.verification.scenario import Scenario
from ottla.broker.verification.scenarios import SCENARIOS
from ottla.broker.verification.stage import RunLimits
from ottla.broker.verification.user_cluster import UserCluster
from ottla.broker.verification.verification import CannotVerify, Verification

BROKEN, COULD_NOT_JUDGE = 1, 2


@command
def verify(  # noqa: PLR0917 # Typer calls it by name; each is an option of the command line
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="The program; {bootstrap}, {work} and so on are replaced.")
    ] = None,
    role: Annotated[
        Role, typer.Option(help="What the program does: producers exit by themselves, the others run until SIGTERM.")
    ] = Role.PRODUCER,
    result: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Prints a consumer's effects, one a line; default: the program's own output.")
    ] = None,
    by: Annotated[str, typer.Option(metavar="value|key|json:FIELD", help="What identifies a record, in every run.")] = "value",
    scenario: Annotated[list[str] | None, typer.Option(help="Only this scenario; may be repeated.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="All but this scenario; may be repeated.")] = None,
    records: Annotated[int, typer.Option(min=20, help="Records of the input, and how many a producer has to send.")] = 200,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time limit of one run.")] = 60.0,
    restarts: Annotated[int, typer.Option(min=0, help="How often a failed run is restarted, as a supervisor would.")] = 3,
    late: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Delay of a late acknowledgement: longer than the program's timeout.")
    ] = 3.0,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML with a test case for each scenario.")] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep each run's log directory and output there.")] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,…]", help="Verify on this cluster, through a gateway; brokers of its own otherwise.")
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client security settings for --bootstrap, as in Kafka's client.properties.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Also fail if the client's protocol version has no defence (exposed).")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the scenarios and what happens in each.")] = False,
) -> None:
    """Verify exactly-once: run a program under lost acknowledgements, zombies, timeouts and crashes, and report which guarantees held.

    Each scenario runs the program as a black box against a fresh broker, or a cluster of three, in this process. The program's environment
    has OTTLA_BOOTSTRAP_SERVERS (also KAFKA_BOOTSTRAP_SERVERS), the topics OTTLA_INPUT and OTTLA_OUTPUT, the group OTTLA_GROUP, the number
    of records OTTLA_RECORDS, its number OTTLA_INSTANCE (which a replacement keeps), and OTTLA_WORK_DIR, which survives restarts.

    With --bootstrap the program runs on an existing cluster of any implementation, through a gateway that causes the faults. Topics and
    groups are created for it and deleted afterwards (--keep keeps them), and the names of its groups and transactional ids must begin
    with OTTLA_GROUP; scenarios that need power over the brokers are left out.

    For example: ottla verify --scenario lost-ack -- python my_producer.py (docs/verify.md explains roles and scenarios).
    A run without faults shows what the program should achieve. Exit code 0: nothing broken; 1: a guarantee was broken; 2: no verdict.
    """
    if list_:
        _list()
        return
    if not program:
        raise CliError("name the program after --: ottla verify -- python my_producer.py (--help lists the options)", COULD_NOT_JUDGE)
    _check_arguments(keep, junit, bootstrap, command_config)
    quiet_client_logs()
    quiet_broker_logs()
    under_test = Program(program, role, records=records, result=None if result is None else shlex.split(result))
    limits = RunLimits(timeout, restarts, round(late * 1_000))
    with ExitStack() as stack:
        received = stack.enter_context(ended_by_signals())
        directory = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-verify-")))
        cluster = None if bootstrap is None else _cluster(bootstrap, command_config, keep=keep is not None)
        results, failure = _run(
            Verification(under_test, directory, _chosen(scenario, skip), limits, _identity(by), keep is not None, cluster)
        )
        if received and failure is not None:
            note(failure)
    if junit is not None:
        _write_junit(results, " ".join(program), junit, failure)
    if as_json_:
        print_json(as_json(results, program, role.value, failure))
    else:
        _print(results)
    _end(results, failure, cluster, strict=strict)


def _list() -> None:
    rows_ = [(each.name, each.happens, each.why_not_on_user_cluster or "") for each in SCENARIOS]
    print_table(("scenario", "what happens", "with --bootstrap: cannot run, because"), rows_)


def _end(results: Sequence[Result], failure: str | None, cluster: UserCluster | None, *, strict: bool) -> None:
    """Print which topics and groups are kept on `cluster`. Raise CliError if the verification failed to finish, and typer.Exit(1) if a
    guarantee was broken; with `strict`, also if one is exposed, that is, if the client's protocol version has no defence."""
    if cluster is not None and cluster.keep:
        typer.echo(f"The topics and groups of the runs are kept in the cluster; their names begin with {cluster.prefix}.", err=True)
    if failure is not None:
        raise CliError(f"could not judge: {failure}", COULD_NOT_JUDGE)
    bad = {ScenarioOutcome.BROKEN, ScenarioOutcome.EXPOSED} if strict else {ScenarioOutcome.BROKEN}
    if any(each.outcome in bad for each in results):
        raise typer.Exit(BROKEN)


def _print(results: Sequence[Result]) -> None:
    if results:
        print_table(COLUMNS, rows(results))
    for line in explanations(results):
        typer.echo(line)
    typer.echo(summary(results))


def _run(verification: Verification) -> tuple[list[Result], str | None]:
    """Run the verification, and print its progress to standard error. Return its results, and the reason if it could not finish (else
    None)."""
    results: list[Result] = []
    console = Console(stderr=True, highlight=False)
    with console.status("…") as status:
        try:
            for result in verification.run(lambda name: status.update(f"{name} ({len(results) + 1} of {len(verification.scenarios) + 1})")):
                results.append(result)
                if result.outcome not in {ScenarioOutcome.DOES_NOT_APPLY, ScenarioOutcome.CANNOT_RUN}:
                    console.print(f"{result.outcome.value:8} {result.name}, {result.ending.seconds:.1f} s", markup=False)
        except (CannotVerify, CannotStart, RuntimeError, OSError) as error:
            return results, str(error) or type(error).__name__
    return results, None


def _write_junit(results: Sequence[Result], name: str, path: Path, failure: str | None) -> None:
    try:
        write_junit(results, name, path, failure)
    except OSError as error:
        raise CliError(f"--junit: {path} cannot be written: {error.strerror}", COULD_NOT_JUDGE) from error


@contextmanager
def ended_by_signals() -> Iterator[Sequence[int]]:
    """Let SIGINT, SIGTERM and SIGHUP (unless ignored, as by nohup) end the verification, so that no process, directory or topic is left
    behind. Yield a list to which each signal that arrives is added.

    The list is needed because DuckDB, on which the audit of a run's log works, replaces the exception that a signal raises by an error of
    its own.
    """
    received: list[int] = []

    def end(number: int, _: FrameType | None) -> NoReturn:
        received.append(number)
        raise SystemExit(128 + number)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield received
        if received:  # the error counted as a verification that could not finish
            raise SystemExit(128 + received[0])
    except Exception as error:
        if received:
            raise SystemExit(128 + received[0]) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_arguments(keep: Path | None, junit: Path | None, bootstrap: str | None, command_config: Path | None) -> None:
    """Check before the verification that its results can be written, that `command_config` is given only with `bootstrap`, and that the
    packages of `ottla audit` are installed. Raises CliError if one of these is not so."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise CliError(f"{keep} is not an empty directory: name a new one for --keep", COULD_NOT_JUDGE)
    if junit is not None and not junit.parent.is_dir():
        raise CliError(f"--junit: there is no directory {junit.parent}", COULD_NOT_JUDGE)
    if command_config is not None and bootstrap is None:
        raise CliError("--command-config is for a cluster of yours: name it with --bootstrap HOST:PORT", COULD_NOT_JUDGE)
    _check_extra()


def _check_extra() -> None:
    """Raise CliError if the packages of `ottla audit`, which judges the log, are not installed. Call this before the verification."""
    missing = audit_missing()
    if missing is not None:
        raise CliError(
            f"ottla verify needs the packages of the extra 'audit': pip install 'ottla[audit]' (there is no {missing})", COULD_NOT_JUDGE
        )


def _chosen(only: Sequence[str] | None, but: Sequence[str] | None) -> list[Scenario]:
    names = {each.name for each in SCENARIOS}
    unknown = sorted({*(only or ()), *(but or ())} - names)
    if unknown:
        raise CliError(f"there is no scenario {', '.join(unknown)}; use {', '.join(sorted(names))}", COULD_NOT_JUDGE)
    return [each for each in SCENARIOS if (not only or each.name in only) and each.name not in (but or ())]


def _cluster(bootstrap: str, command_config: Path | None, *, keep: bool) -> UserCluster:
    source = WireSource(bootstrap, command_config)
    try:
        source.address()
    except (OSError, ValueError) as error:
        raise CliError(str(error), COULD_NOT_JUDGE) from None
    return UserCluster(source, keep)


def _identity(by: str) -> Identity:
    try:
        return identity_of(by)
    except ValueError as error:
        raise CliError(str(error), COULD_NOT_JUDGE) from error
