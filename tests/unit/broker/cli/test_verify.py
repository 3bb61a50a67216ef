"""Arguments that `ottla verify` rejects before it starts a program. Runs with programs: tests/scenario/test_verify.py."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

import pytest
import typer
from typer.testing import CliRunner

from ottla.broker.cli.verify import ended_by_signals, verify
from ottla.broker.verification.scenarios import SCENARIOS

APP = typer.Typer()
APP.command()(verify)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the program after --"),
        (("--scenario", "earthquake", "--", "true"), "there is no scenario earthquake; use coordinator-failover"),
        (("--skip", "earthquake", "--", "true"), "there is no scenario earthquake"),
        (("--by", "colour", "--", "true"), "identifies no records"),
        (("--keep", ".", "--", "true"), "not an empty directory"),
        (("--", "./pyproject.toml"), "cannot be run: Permission denied"),
        (("--keep", "pyproject.toml", "--", "true"), "not an empty directory"),
        (("--command-config", "client.properties", "--", "true"), "name it with --bootstrap HOST:PORT"),
        (("--junit", "no/such/directory/verify.xml", "--", "true"), "there is no directory"),
    ],
)
def test_verify_exits_with_2_and_the_reason_if_it_cannot_run(words: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(APP, list(words))
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split())


def test_fewer_records_than_the_minimum_are_rejected() -> None:
    assert CliRunner().invoke(APP, ["--records", "19", "--", "true"]).exit_code == 2


def test_list_option_prints_every_scenario() -> None:
    done = CliRunner().invoke(APP, ["--list"])
    assert done.exit_code == 0
    assert all(each.name in done.stdout for each in SCENARIOS)


@pytest.mark.parametrize("package", ["duckdb", "pyarrow", "junitparser"])
def test_verify_is_refused_if_the_audit_extra_is_missing(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.testing.verdict.find_spec", lambda name: None if name == package else find_spec(name))
    done = CliRunner().invoke(APP, ["--", "true"])
    assert done.exit_code == 2
    assert f"pip install 'ottla[audit]' (there is no {package})" in done.stderr


def raise_sigterm_in_a_library() -> None:
    try:
        signal.raise_signal(signal.SIGTERM)
    except SystemExit as error:
        raise ValueError("an error of DuckDB") from error


def raise_sigterm_and_report_a_failure() -> None:
    with suppress(SystemExit):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("ends", [raise_sigterm_in_a_library, raise_sigterm_and_report_a_failure])
def test_signal_ends_the_verification_even_if_its_exception_is_replaced(ends: Callable[[], None]) -> None:
    with pytest.raises(SystemExit) as ended, ended_by_signals():
        ends()
    assert ended.value.code == 128 + signal.SIGTERM
