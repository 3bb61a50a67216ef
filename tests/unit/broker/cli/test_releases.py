"""The output of `ottla releases`."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from ottla.broker.cli.releases import list_releases
from ottla.broker.releases.table import releases

APP = typer.Typer()
APP.command()(list_releases)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(APP, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_without_arguments_all_releases_are_listed() -> None:
    lines = run().splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(releases())


def test_two_releases_are_compared() -> None:
    found = {each["name"]: (each["before"], each["after"]) for each in json.loads(run("3.3", "3.9", "--json"))}
    assert found["Fetch"] == ("0-13", "0-17")
    assert found["ConsumerGroupHeartbeat"] == (None, "0")


def test_one_release_is_compared_with_the_next() -> None:
    assert run("3.9") == run("3.9", "4.0.1")


def test_unserved_lists_what_a_release_offers_and_ottla_does_not() -> None:
    found = {each["name"]: (each["before"], each["after"]) for each in json.loads(run("--unserved", "2.8", "--json"))}
    assert found["Fetch"] == ("0-12", "4-12")
    assert found["LeaderAndIsr"] == ("0-5", None)
    assert "Metadata" not in found


def test_release_list_counts_unserved_features_and_settings() -> None:
    (newest, *_) = (each for each in json.loads(run("--json")) if each["release"] == "4.4")
    assert newest["unserved"].startswith("features 2, settings"), "every API and version of 4.4 is served"


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["2.0"], "known releases: 2.8"),
        (["4.4"], "ottla releases 3.9 4.4"),
        (["--unserved", "2.0"], "known releases: 2.8"),
        (["3.9", "--unserved", "4.4"], "give no other"),
    ],
)
def test_invalid_comparison_is_an_error_with_advice(arguments: list[str], advice: str) -> None:
    done = CliRunner().invoke(APP, arguments)
    assert (done.exit_code, advice in done.stderr) == (2, True), done.stderr
