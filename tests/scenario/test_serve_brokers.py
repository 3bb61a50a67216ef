"""`ottla serve --brokers 3` as a process."""

from __future__ import annotations

import json
import re
import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ottla.broker.cli.cluster_status import app
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.logins import log_in, plain
from tests.support.running_broker import HOST, ServeProcess


def leader_of(client: Client, topic: str) -> tuple[int, list[int]]:
    """Return the port of the leader of partition 0 as soon as it is known, and the ISR."""
    while True:
        answer = client.call(MetadataRequest([MetadataRequestTopic(name=topic)]))
        (found,) = answer.topics
        if not found.error_code and not found.partitions[0].error_code:
            (partition,) = found.partitions
            return next(node.port for node in answer.brokers if node.node_id == partition.leader_id), sorted(partition.isr_nodes)


ADMIN_TOKEN = "a-token"


def get_json(url: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


Connect = Callable[[int], Client]


def produce_to(port: int, value: bytes, connect: Connect = lambda port: Client(HOST, port)) -> tuple[int, int]:
    """Produce with acks=all; return the error and the offset."""
    batch = build_batch([SimpleRecord(None, value, 1_000)])
    request = ProduceRequest(None, -1, 30_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])
    with connect(port) as client:
        while True:
            (answer,) = client.call(request, 12).responses[0].partition_responses
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:  # it has not applied its leadership yet
                return answer.error_code, answer.base_offset


def test_three_brokers_of_one_command_replicate_and_keep_everything_after_a_restart(tmp_path: Path) -> None:
    admin = ("--console", "--admin-port=0", f"--admin-token={ADMIN_TOKEN}")
    process = ServeProcess(tmp_path / "data", "--brokers=3", "--set=broker.heartbeat.interval.ms=200", *admin)
    with process as running:
        consoles = re.findall(r"The console is (http://127\.0\.0\.1:\d+/console)", running.log_text())
        assert [get_json(f"{url}/broker")["node_id"] for url in consoles] == [1, 2, 3]
        with running.client() as client:
            created = client.call(CreateTopicsRequest([CreatableTopic("t", 1, 3)]))
            assert [topic.error_code for topic in created.topics] == [0]
            port, in_sync = leader_of(client, "t")
            assert in_sync == [1, 2, 3]
        done = CliRunner().invoke(app, ["status", "--json", "-b", running.bootstrap])
        status = json.loads(done.output)
        assert [(broker["id"], broker["state"], broker["out_of_sync"]) for broker in status["brokers"]] == [
            (node, "serves", 0) for node in (1, 2, 3)
        ]
        assert [(controller["leads"], controller["lag"]) for controller in status["controllers"]] == [(True, 0)]
        assert [produce_to(port, b"x") for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
        assert running.stop() == 0
        process.port = 0
        process.options += ["--tls", "--user=alice:secret"]  # which applies to the nodes too
        process.start()
        context = ssl.create_default_context(cafile=tmp_path / "data.tls" / "ca.pem")

        def alice(port: int) -> Client:
            client = Client(HOST, port, wrap=lambda connected: context.wrap_socket(connected, server_hostname=HOST))
            assert log_in(client, plain("alice", "secret")).error_code == 0
            return client

        with alice(running.port) as client:
            port, _ = leader_of(client, "t")
        assert produce_to(port, b"y", alice) == (0, 3)
        with pytest.raises((ConnectionError, ProtocolError)):  # the connection is closed, or answered with a TLS alert
            produce_to(port, b"z")
    log = process.log_text().splitlines()
    for said in ("The broker is RUNNING", "created topic t with 1 partition(s)", "The broker is SHUTTING_DOWN"):
        who = [line.partition("INFO    ")[2].partition(" ottla.")[0] for line in log if said in line]
        assert set(who) == {"broker 1", "broker 2", "broker 3"}
    assert any("INFO    controller ottla." in line for line in log)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"controller", "broker1", "broker2", "broker3"}
