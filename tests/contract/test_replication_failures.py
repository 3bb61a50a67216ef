"""Every test that docs/replication-failures.md names as proof exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "replication-failures.md"
LAST = 40
NUMBER = re.compile(r"(?:KAFKA|KIP)-\d+")
PIN = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
SCENARIOS = re.compile(r"[Ss]cenarios? (\d+(?:(?:, | and )\d+)*)")
FOLDERS = ("property", "scenario", "unit")


class Row(NamedTuple):
    scenario: int
    numbers: frozenset[str]
    tests: frozenset[tuple[str, str]]


def rows() -> list[Row]:
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    return [Row(int(number), frozenset(NUMBER.findall(kafkas)), frozenset(PIN.findall(tests))) for number, kafkas, _, tests in lines]


def docstrings() -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((file, test name), docstring) of every test in a file that names a scenario."""
    for path in sorted(path for folder in FOLDERS for path in (ROOT / "tests" / folder).rglob("test_*.py")):
        text = path.read_text()
        if not re.search(r"[Ss]cenarios? \d", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield (path.relative_to(ROOT).as_posix(), node.name), ast.get_docstring(node) or ""


def named(docstring: str) -> set[int]:
    return {int(number) for group in SCENARIOS.findall(docstring) for number in re.findall(r"\d+", group)}


def test_every_scenario_has_a_row() -> None:
    assert [row.scenario for row in rows()] == list(range(1, LAST + 1))


def test_every_row_names_the_tests_that_name_it_and_no_others() -> None:
    named_by = {test: named(text) for test, text in docstrings()}
    for row in rows():
        assert row.tests == {test for test, scenarios in named_by.items() if row.scenario in scenarios}, row.scenario
        assert row.tests != frozenset(), row.scenario


def test_kafkas_numbers_of_a_row_are_in_the_docstrings_of_its_tests() -> None:
    texts = dict(docstrings())
    for row in rows():
        text = " ".join(texts[test] for test in row.tests)
        assert row.numbers <= set(NUMBER.findall(text)), row.scenario
