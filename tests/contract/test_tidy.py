"""House rules that a reader of the code relies on, checked over the source tree."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ottla", "protocol", "broker", "client_compat", "spark_jobs")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
# A module this short has nothing that its users' tests do not show.
MIRROR_LINES_MIN = 40

SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "node_modules" not in path.parts)
ALL_PYTHON = SOURCES + sorted((ROOT / "tests").rglob("*.py"))
# Public names that begin with one underscore.
PUBLIC_WITH_UNDERSCORE = {"_exit", "_replace"}
OTHERS_PRIVATE_NAMES = {
    "tests/conftest.py": "pytest-xdist's schedulers are made to be derived from, by overriding _split_scope",
    "tests/golden/test_record_batches.py": "aiokafka's batches in pure Python have no public name",
    "tests/support/oracles.py": "kafka-python tells the versions and fields of its messages nowhere else",
}
SAME_CLASS_NAMES = {
    "TopicPartition": "Kafka's, of a pair of topic and index, and of one shape in the schema of its consumers' subscriptions",
}
SUPPRESSION = re.compile(r"#\s*(?:noqa(?::\s*[A-Z0-9, ]+)?|type:\s*ignore(?:\[[^\]]*\])?|pragma:\s*\w[\w ]*)(?P<rest>.*)$")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def mirrors_of(path: Path) -> list[Path]:
    """Return the permitted test files of a module. An API handler is tested over a socket, or like other modules, in a unit test."""
    inside = path.relative_to(ROOT)
    unit = ROOT / "tests" / "unit" / inside.parent
    if inside.parts[:2] == ("broker", "api") and path.stem.startswith("k"):
        return [ROOT / "tests" / "wire" / f"test_{path.stem}.py", unit / f"test_{path.stem}.py"]
    return [unit / f"test_{path.stem}.py", unit / f"test_{inside.parent.name}.py"]


def needs_mirror(path: Path) -> bool:
    inside = path.relative_to(ROOT)
    if path.stem.startswith("__") or inside.parts[0] == "client_compat":
        return False
    if inside.parts[:2] == ("protocol", "messages"):  # tested all together against two independent libraries
        return False
    return len(path.read_text().splitlines()) >= MIRROR_LINES_MIN


def test_no_function_is_longer_than_a_screen() -> None:
    long = []
    for path in ALL_PYTHON:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long.append(f"{relative(path)}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def test_no_file_is_longer_than_its_limit() -> None:
    assert [f"{relative(p)}: {n}" for p in ALL_PYTHON if (n := len(p.read_text().splitlines())) > FILE_LINES_MAX] == []


@pytest.mark.parametrize("path", [p for p in SOURCES if needs_mirror(p)], ids=relative)
def test_every_module_has_a_test_file_at_the_mirrored_path(path: Path) -> None:
    places = mirrors_of(path)
    assert any(place.exists() for place in places), f"none of {[relative(p) for p in places]} exists"


def test_every_route_has_a_handler_file_and_a_wire_test_of_the_same_stem() -> None:
    from ottla.broker.api.routes import broker_routes
    from ottla.protocol.api_keys import ApiKey

    missing = []
    for key in map(ApiKey, broker_routes(telemetry=True)):
        stems = [p.stem for p in (ROOT / "broker" / "api").glob(f"k{int(key):02d}_*.py")]
        tests = [p.stem for p in (ROOT / "tests" / "wire").glob(f"test_k{int(key):02d}_*.py")]
        if len(stems) != 1 or tests != [f"test_{stems[0]}"]:
            missing.append((key.name, stems, tests))
    assert missing == []


def test_every_suppression_gives_its_reason() -> None:
    bare = []
    for path in ALL_PYTHON:
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = SUPPRESSION.search(line)
            if match and len(re.sub(r"[\W_]+", "", match["rest"])) < 6:
                bare.append(f"{relative(path)}:{number}: {line.strip()}")
    assert bare == []


def test_code_contains_no_todo_marks_or_not_implemented_errors() -> None:
    words = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|HA" + r"CK)\b|raise NotImplemented" + "Error")
    assert [f"{relative(p)}:{n}" for p in ALL_PYTHON for n, line in enumerate(p.read_text().splitlines(), 1) if words.search(line)] == []


def test_tests_do_not_sleep() -> None:
    sleeping = re.compile(r"\btime\.sle" + r"ep\(|asyncio\.sle" + r"ep\((?!0\))")
    tests = [p for p in ALL_PYTHON if relative(p).startswith("tests/") and "support" not in p.parts]
    assert [f"{relative(p)}:{n}" for p in tests for n, line in enumerate(p.read_text().splitlines(), 1) if sleeping.search(line)] == []


def test_class_names_are_unique_among_broker_modules() -> None:
    made: dict[str, list[str]] = {}
    for path in SOURCES:
        if relative(path).startswith("broker/"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    made.setdefault(node.name, []).append(relative(path))
    same = {name: paths for name, paths in made.items() if len(paths) > 1 and name not in SAME_CLASS_NAMES}
    assert same == {}


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each attribute, imported name, and word given to getattr, setattr or a patch, except attributes of `self` and
    `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and re.search(r"(?:get|set)attr$", ast.unparse(node.func)):
            yield from ((node.lineno, word) for arg in node.args if isinstance(arg, ast.Constant) for word in str(arg.value).split("."))


def test_tests_use_public_names_only() -> None:
    private = re.compile(r"_(?!_)\w")
    tests = [p for p in ALL_PYTHON if relative(p).startswith("tests/") and relative(p) not in OTHERS_PRIVATE_NAMES]
    found = [(p, line, name) for p in tests for line, name in private_names(ast.parse(p.read_text())) if private.match(name)]
    assert [f"{relative(p)}:{line} {name}" for p, line, name in found if name not in PUBLIC_WITH_UNDERSCORE] == []


def test_the_page_of_make_targets_names_every_target() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    page = (ROOT / "docs" / "make-targets.md").read_text()
    assert [t for t in targets if f"`make {t}`" not in page] == []


def test_make_help_lists_every_target() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [t for t in targets if f"make {t} " not in printed] == []
