"""The public API: few names, cheap to import, as docs/public-api.md says; the examples of that page run."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import ottla.audit
import ottla.testing
from ottla.testing import InProcessBroker
from tests.support.spark import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]
pytest_plugins = ["pytester"]
FACES = (ottla.testing, ottla.audit)
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "public-api.md").read_text()
IN_PROCESS, FIXTURES, CLUSTER, _CONTAINER, AUDIT, SPARK, PROTOCOL = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a log of one topic in `data`, and make its parent the working directory."""
    monkeypatch.chdir(tmp_path)
    with InProcessBroker(tmp_path / "data") as broker:
        broker.topics.create("orders")


def run(example: str, **names: object) -> None:
    exec(compile(example, "docs/public-api.md", "exec"), {"__name__": "example", **names})


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_public_name_exists_and_is_on_the_page(face: ModuleType) -> None:
    assert [name for name in face.__all__ if getattr(getattr(face, name), "__name__", name) != name] == []
    assert [name for name in face.__all__ if f"`{name}`" not in PAGE] == []


def test_every_protocol_module_and_name_on_the_page_exists() -> None:
    rows = re.findall(r"^\| `(ottla\.protocol\.[a-z_.]+)` \| ((?:`\w+`(?:, )?)+)", PAGE, re.MULTILINE)
    listed = [(module, name) for module, names in rows for name in re.findall(r"\w+", names)]
    assert [f"{module}.{name}" for module, name in listed if not hasattr(import_module(module), name)] == []
    assert len(rows) == 6


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_public_name_is_listed_and_in_the_help(face: ModuleType) -> None:
    assert set(dir(face)) == set(face.__all__)
    text = pydoc.plain(pydoc.render_doc(face))
    assert [name for name in face.__all__ if name not in text] == []


def test_name_with_a_missing_extra_names_the_extra_and_the_others_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("testcontainers", "testcontainers.core.config"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "ottla.broker.testing.container", raising=False)
    with pytest.raises(ImportError, match=r"extra 'containers': pip install 'ottla\[containers\]' \(.*testcontainers"):
        _ = ottla.testing.OttlaContainer
    assert set(ottla.testing.__all__) - set(dir(ottla.testing)) == {"OttlaContainer"}
    assert "InProcessBroker" in pydoc.plain(pydoc.render_doc(ottla.testing))


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_unknown_name_is_an_attribute_error_with_module_and_name(face: ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"module '{face.__name__}' has no attribute 'Broker'"):
        _ = face.Broker


def test_importing_the_public_modules_loads_nothing_else() -> None:
    code = "import sys; old = {*sys.modules}; import ottla.testing, ottla.audit, ottla.protocol; print(*sorted({*sys.modules} - old))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("ottla")}
    assert ours == {"ottla", "ottla._lazy", "ottla.audit", "ottla.protocol", "ottla.testing"}
    assert {name.partition(".")[0] for name in loaded} - {*sys.stdlib_module_names} == {"ottla"}


def test_the_example_of_a_broker_in_process_runs() -> None:
    run(IN_PROCESS)


def test_the_example_of_fixtures_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FIXTURES)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_example_of_a_cluster_runs() -> None:
    run(CLUSTER)


@pytest.mark.usefixtures("data")
def test_the_example_of_the_audit_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(AUDIT)
    assert "Clean: no rule was broken" in capsys.readouterr().out


@pytest.mark.usefixtures("data")
def test_the_example_in_spark_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # pytest's way
    example = SPARK.replace('"data"', repr(str(tmp_path / "data")))  # Spark was started elsewhere, perhaps
    assert example != SPARK
    run(example, spark=spark)
    assert "base_offset" in capsys.readouterr().out


def test_the_example_of_the_protocol_runs() -> None:
    run(PROTOCOL)
