"""Files, modules, make targets, commands and options that the pages name exist."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path
from pydoc import ErrorDuringImport, locate

import pytest
import typer
from typer.main import get_command

from ottla.broker.cli import COMMANDS
from ottla.broker.cli.gateway import parser as gateway_parser
from ottla.broker.cli.gateway import tap_parser
from ottla.broker.cli.health import parser as health_parser
from ottla.broker.cli.kafka_tools import TOOLS
from ottla.broker.cli.serve import parser as serve_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "client_compat").glob("*/*.md")),
]
STARTS = (ROOT, ROOT / "broker", ROOT / "client_compat")
"""Folders that pages give paths from."""
PLACEHOLDER = "kNN_"  # one file for each API key
ROOMS = "|".join(sorted(each.name for each in (ROOT / "broker").iterdir() if each.is_dir() and each.name != "__pycache__"))
FILE = re.compile(r"(?<![\w./{}-])((?:[\w-]+/)+[\w.-]+\.(?:py|md|toml|yml))\b")
FOLDER = re.compile(rf"(?<![\w./-])((?:broker|protocol|spark_jobs|client_compat|{ROOMS})/[\w/]*\w)(?![\w.*/])")
TEST_FILE = re.compile(r"`(test_\w+\.py)`")
MODULE = re.compile(r"\b(?!ottla\.service\b)(ottla(?:\.[A-Za-z_]\w*)+)")  # that one is a unit of systemd's
TARGET = re.compile(r"(?:`|^|; |&& )make ([a-z][a-z-]*)", re.MULTILINE)
COMMAND = re.compile(r"(?:`|^|\| )ottla ([^`|#\n]+)", re.MULTILINE)

OWN_PARSERS = {"serve": serve_parser, "health": health_parser, "gateway": gateway_parser, "tap": tap_parser}  # they start without Typer

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def is_there(page: Path, name: str) -> bool:
    """Return whether a name in a page refers to an existing file or folder, or to a module without its `.py`."""
    places = [start / name for start in (page.parent, *STARTS)]
    return PLACEHOLDER in name or any(place.exists() or place.with_suffix(".py").exists() for place in places)


@every_page
def test_every_file_and_folder_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    named = [*FILE.findall(text), *FOLDER.findall(text)]
    assert [name for name in named if not is_there(page, name)] == []
    assert [name for name in TEST_FILE.findall(text) if not any((ROOT / "tests").rglob(name))] == []


def is_importable(name: str) -> bool:
    """Return whether the dotted name is a module, class or function. A module that only lacks an optional dependency (python-gssapi) counts
    as one."""
    try:
        return locate(name) is not None
    except ErrorDuringImport as error:
        return isinstance(error.value, ModuleNotFoundError) and not str(error.value.name).startswith("ottla")


@every_page
def test_every_module_class_and_function_that_a_page_names_can_be_imported(page: Path) -> None:
    assert [name for name in MODULE.findall(page.read_text()) if PLACEHOLDER not in name and not is_importable(name)] == []


@every_page
def test_every_make_target_that_a_page_names_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert [name for name in TARGET.findall(page.read_text()) if name not in targets] == []


def options_of(words: list[str]) -> set[str] | None:
    """Return the options of the command or subcommand at the start of a command line; None if no such command exists."""
    name = words[0]
    if name in OWN_PARSERS:
        return set(re.findall(r"--[a-z-]+", OWN_PARSERS[name]().format_help()))
    if name in TOOLS:
        return set(re.findall(r"--[a-z-]+", import_module(TOOLS[name]).parser().format_help()))
    if name not in COMMANDS:
        return None
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        app = found
    else:
        app = typer.Typer()
        app.command(name)(found)
    command = get_command(app)
    subcommands = getattr(command, "commands", {})
    if subcommands and len(words) > 1:
        if words[1] not in subcommands:
            return None
        command = subcommands[words[1]]
    return {"--help", *(option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))}


def unknown_in(line: str) -> list[str]:
    """Return the words after `ottla` in a command line that `--help` does not show."""
    words = shlex.split(line.replace("…", ""), comments=True)
    if words[0].startswith("-") or not words[0].islower():  # `ottla --help`, `ottla COMMAND`
        return []
    own = words[: words.index("--")] if "--" in words else words
    options = options_of(own)
    if options is None:
        return [" ".join(own[:2])]
    return [f"{words[0]} {word}" for word in own if word.startswith("--") and word.partition("=")[0] not in options]


def test_an_unknown_command_subcommand_or_option_is_found() -> None:
    assert [unknown_in(line) for line in ("sreve DIR", "topics ls", "audit DIR --nothing", "verify --json -- x --nothing")] == [
        ["sreve DIR"],
        ["topics ls"],
        ["audit --nothing"],
        [],
    ]


@every_page
def test_every_command_line_of_a_page_is_one_that_ottla_takes(page: Path) -> None:
    lines = COMMAND.findall(page.read_text())
    assert [unknown for line in lines for unknown in unknown_in(line)] == []
