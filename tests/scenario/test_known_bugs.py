"""Known exactly-once bugs occur as documented, with the clients that have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.known_bugs.catalog import CATALOG, Bug
from client_compat.support.stage import Stage, stages


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Stage]]:
    directory: Path = tmp_path_factory.mktemp("known-bugs")
    with stages(directory, print, sorted({bug.transaction_version for bug in CATALOG})) as brokers:
        yield brokers


@pytest.mark.parametrize("bug", CATALOG, ids=lambda bug: bug.name)
def test_a_known_bug_happens_as_documented(ready: dict[int, Stage], bug: Bug) -> None:
    stage = ready[bug.transaction_version]
    try:
        assert bug.play(stage), "\n".join(stage.lines)
    finally:
        stage.admin.reset()
        stage.lines.clear()
