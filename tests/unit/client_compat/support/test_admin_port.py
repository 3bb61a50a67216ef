"""The client of the admin port without an HTTP library, on a broker that runs as a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_compat.support.admin_port import AdminRefused
from client_compat.support.stage import Stage, stages


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stages(tmp_path_factory.mktemp("admin"), print, [2]) as ready:
        yield ready[2]


def test_fault_rule_in_command_line_syntax_is_loaded_hit_and_counted(stage: Stage) -> None:
    name = stage.admin.add("error:api=CreateTopics,code=INVALID_REQUEST,times=1,name=refuse")
    with pytest.raises(RuntimeError, match="INVALID_REQUEST"):
        stage.truth.create_topic("refused")
    stage.admin.wait_hit(name)
    assert stage.admin.hits(name) == 1


def test_invalid_rule_is_rejected_with_the_brokers_message(stage: Stage) -> None:
    with pytest.raises(AdminRefused, match="unknown fault"):
        stage.admin.add("explode")


def test_reset_removes_every_rule(stage: Stage) -> None:
    name = stage.admin.add("drop-request:api=Produce,name=gone")
    stage.admin.reset()
    with pytest.raises(AdminRefused, match="gone"):
        stage.admin.hits(name)
