"""Marks of a process over HTTP and by `ottla marks`: its broker returns to earlier states and keeps its ports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from tests.support.all_reads import TOPICS, answers
from tests.support.group_calls import commit, fetch, find_coordinator
from tests.support.running_broker import ServeProcess
from tests.support.topic_calls import create, describe, produce

TOKEN = "a-token"


class Marked(ServeProcess):
    """`ottla serve` with an admin port."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "--admin-port=0", f"--admin-token={TOKEN}")

    @property
    def admin(self) -> str:
        return self.log_text().rpartition("The admin port is http://")[2].split()[0]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(f"http://{self.admin}{path}", data, headers, method=method)
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["detail"]

    def ottla(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "ottla", "marks", *arguments, "--admin", self.admin]
        environment = {**os.environ, "OTTLA_ADMIN_TOKEN": TOKEN}
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Marked]:
    with Marked(tmp_path / "data") as process:
        assert isinstance(process, Marked)
        with process.client() as client:
            for name in TOPICS:
                create(client, name, 2)
            produce(client, "t", b"a")
            find_coordinator(client)
            commit(client, 1)
        yield process


def change(served: Marked) -> None:
    """Change records, topics, offsets and a dynamic setting of the broker."""
    with served.client() as client:
        produce(client, "t", b"b")
        commit(client, 2)
        create(client, "v")
        configs = [AlterableConfig("message.max.bytes", 0, "5000"), AlterableConfig("log.cleaner.threads", 0, "2")]
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)]))


def all_answers(served: Marked) -> list[tuple[str, Any]]:
    with served.client() as client:
        return answers(client)


def test_process_is_rewound_to_a_mark_and_keeps_its_port(served: Marked) -> None:
    assert served.ask("POST", "/marks", {"name": "first"})[0] == 201
    assert served.ask("POST", "/marks/first/rewind")[0] == 200  # its settings show port 0 before
    status, made = served.ask("POST", "/marks", {})
    assert (status, made["name"]) == (201, "mark-2")
    before = all_answers(served)
    for _ in range(3):
        with served.client() as connected:
            change(served)
            served.ask("POST", "/clock/advance", {"ms": 5_000_000})
            status, body = served.ask("POST", "/marks/mark-2/rewind")
            assert (status, body) == (200, made)
            with pytest.raises(OSError, match=r"closed|reset"):
                connected.call(DescribeClusterRequest())
        for then, now in zip(before, all_answers(served), strict=True):
            assert now == then
        assert 0 <= served.ask("GET", "/clock")[1]["now_ms"] - made["now_ms"] < 60_000
    assert served.ask("GET", "/health")[1]["partitions"] >= 4
    assert served.stop() == 0
    assert sorted(path.name for path in served.data_dir.parent.iterdir()) == ["data", "data.log"]


def test_rewound_state_is_that_of_the_directory_even_after_a_kill(served: Marked) -> None:
    assert served.ask("POST", "/marks", {"name": "m"})[0] == 201
    change(served)
    assert served.ask("POST", "/marks/m/rewind")[0] == 200
    served.kill()
    assert len(list(served.data_dir.parent.iterdir())) == 3
    served.start()
    assert sorted(path.name for path in served.data_dir.parent.iterdir()) == ["data", "data.log"], "the marks end with the process"
    with served.client() as client:
        assert fetch(client)[0] == 1
        assert [topic.error_code for topic in describe(client, "t", "v")] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert produce(client, "t", b"b") == 1


def test_mark_command_adds_lists_rewinds_and_removes(served: Marked) -> None:
    assert served.ottla("add", "seeded/1").stdout == "seeded/1\n"
    change(served)
    assert served.ottla("rewind", "seeded/1").returncode == 0
    with served.client() as client:
        assert produce(client, "t", b"b") == 1
    assert "seeded/1" in served.ottla("list").stdout
    assert served.ottla("remove", "seeded/1").returncode == 0
    assert served.ask("GET", "/marks") == (200, [])
    refused = served.ottla("rewind", "seeded/1")
    assert (refused.returncode, refused.stderr) == (1, "error: there is no mark seeded/1\n")


def test_invalid_mark_requests_change_nothing(served: Marked) -> None:
    assert served.ask("POST", "/marks", {"name": "m"})[0] == 201
    assert served.ask("POST", "/marks", {"name": "m"}) == (409, "there is a mark m already")
    assert served.ask("POST", "/marks/none/rewind") == (404, "there is no mark none")
    assert served.ask("DELETE", "/marks/none") == (404, "there is no mark none")
    assert served.ask("POST", "/marks", {"nam": "m"})[0] == 422
    assert [mark["name"] for mark in served.ask("GET", "/marks")[1]] == ["m"]
