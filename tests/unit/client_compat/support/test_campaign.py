from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from rich.console import Console

from client_compat.support.brokers import BrokerFailed
from client_compat.support.campaign import RECORD, Expectations, Outcome, repeat_command, run_campaign


@dataclass
class Judged:
    """An outcome of a campaign with its own report line."""

    good: bool

    def show(self, console: Console) -> None:
        console.print("what was found")


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("outcome", "code", "words"), [(Judged(True), 0, "As promised"), (Judged(False), 1, "NOT as promised")])
def test_the_verdict_and_the_exit_code_follow_the_outcome(
    console: Console, tmp_path: Path, outcome: Outcome, code: int, words: str
) -> None:
    with pytest.raises(typer.Exit) as ended:
        run_campaign(lambda *_: outcome, tmp_path / "run", look_at="look here", look_again=["audit {}/log"], console=console)
    assert ended.value.exit_code == code
    found, verdict, kept, again = printed(console).splitlines()
    assert (found, verdict.split(",")[0]) == ("what was found", words)
    assert kept == f"Everything stays in {tmp_path / 'run'}: look here"
    assert again.endswith(f" audit {tmp_path / 'run'}/log")


def test_unfinished_campaign_has_no_verdict(console: Console, tmp_path: Path) -> None:
    def play(_console: Console, _root: Path) -> Outcome:
        raise BrokerFailed("port taken")

    with pytest.raises(typer.Exit) as ended:
        run_campaign(play, tmp_path, look_at="broker.log", console=console)
    assert ended.value.exit_code == 1
    assert printed(console) == f"The campaign could not be finished (see {tmp_path}: broker.log): port taken\n"


def test_a_campaign_without_a_directory_names_none(console: Console) -> None:
    def fail(_console: Console, _root: Path) -> Outcome:
        raise BrokerFailed("port taken")

    for play in (fail, lambda *_: Judged(False)):
        with pytest.raises(typer.Exit):
            run_campaign(play, look_at="broker.log", look_again=["audit {}/log"], console=console)
    unfinished, found, verdict = printed(console).splitlines()
    assert unfinished == "The campaign could not be finished: port taken"
    assert (found, verdict.split(",")[0]) == ("what was found", "NOT as promised")


def test_the_next_campaign_replaces_the_directory_of_the_last_one(console: Console, tmp_path: Path) -> None:
    def play(_console: Console, root: Path) -> Outcome:
        assert [file.name for file in root.iterdir()] == [RECORD]
        (root / "log").mkdir()
        return Judged(True)

    for _ in range(2):
        with pytest.raises(typer.Exit) as ended:
            run_campaign(play, tmp_path, console=console)
        assert ended.value.exit_code == 0


def test_foreign_directory_is_not_replaced(console: Console, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(typer.Exit) as ended:
        run_campaign(lambda *_: Judged(True), tmp_path, console=console)
    assert ended.value.exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_directory_records_the_command_with_its_seed(console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["crash", "--kills", "3"])
    with pytest.raises(typer.Exit):
        run_campaign(lambda *_: Judged(True), tmp_path, seed=17, console=console)
    command = (tmp_path / RECORD).read_text().strip()
    assert command.endswith("--kills 3 --seed 17")
    assert command in printed(console)
    monkeypatch.setattr(sys, "argv", ["crash", "--seed", "17"])
    assert repeat_command(17).endswith("--seed 17")
    assert repeat_command(17).count("--seed") == 1


def test_experiments_are_good_only_if_there_are_some_without_surprises(console: Console) -> None:
    assert Expectations(2, []).good
    assert not Expectations(0, []).good
    surprising = Expectations(2, ["reordering"])
    surprising.show(console)
    assert not surprising.good
    assert printed(console) == "1 of 2 as expected\notherwise: reordering\n"
