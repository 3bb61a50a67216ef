from __future__ import annotations

from pathlib import Path

import pytest
import typer

from ottla.broker.core.acl import STANDARD_AUTHORIZER, Operation
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.explain import explain
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.pins import PINNED
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.wire import cluster
from ottla.spark_jobs.wire.address import address_of
from ottla.spark_jobs.wire.sources import Wire, is_fetched, sources, with_server
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce


def test_directories_and_clusters_are_pinned_during_the_audit(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, sources([tmp_path, f"kafka://{broker.bootstrap}"]) as given:
        pins = [Path(given.paths[0].removeprefix(PINNED)), Path(address_of(given.paths[1]).pinned)]
        assert all(pin.exists() for pin in pins)
        assert find_logs(given.paths[0]).path == str(tmp_path)
    assert not any(pin.exists() for pin in pins)


def test_cluster_with_a_spool_is_read_from_the_spool_directory(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, sources([f"kafka://{broker.bootstrap}"], (), Wire(spool=tmp_path / "spool")) as given:
        assert given.paths == [str(tmp_path / "spool")]
    assert is_fetched(str(tmp_path / "spool"))
    assert not is_fetched(str(tmp_path / "data"))


def test_rules_that_need_files_are_not_judged_over_the_wire_with_the_reason(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", b"one", producer_id=5, base_sequence=0)
        for wire in (Wire(), Wire(spool=tmp_path / "spool")):
            (verdict,) = audit([f"kafka://{broker.bootstrap}"], wire=wire, engine="duckdb").directories
            assert (verdict.batches, verdict.problems) == (1, [])
            assert {name for name, result in verdict.rules.items() if not result.judged} >= {"indexes", "producer-snapshots"}
            assert verdict.rules["crc"].judged
            assert any("no index files" in note for note in verdict.notes)


@pytest.mark.parametrize("spooled", [False, True])
def test_a_topic_that_this_user_may_not_read_is_a_problem_and_the_others_are_judged(spooled: bool, tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with RunningBroker(tmp_path / "data", settings) as broker, broker.client() as client:
        for topic in ("hidden", "open"):
            create(client, topic)
            produce(client, topic, b"one")
        described = AclCreation(2, "hidden", principal="User:ANONYMOUS", host="*", operation=Operation.DESCRIBE, permission_type=3)
        assert client.call(CreateAclsRequest([described])).results[0].error_code == 0
        wire = Wire(spool=tmp_path / "spool" if spooled else None)
        with sources([f"kafka://{broker.bootstrap}"], (), wire) as given:
            assert explain("open-0@0", given.paths[0]).visible[0]
        verdict = audit([f"kafka://{broker.bootstrap}"], wire=wire, engine="duckdb")
    (directory,) = verdict.directories
    assert (verdict.exit_code, directory.batches) == (2, 1)
    assert directory.problems == ["hidden: TOPIC_AUTHORIZATION_FAILED, this user may not READ it"]


def test_a_read_right_that_is_withdrawn_during_the_audit_is_no_violation(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", faults=["error:api=Fetch,code=TOPIC_AUTHORIZATION_FAILED"]) as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", b"one")
        with pytest.raises(CannotJudge, match="t-0: cannot be fetched at offset 0: TOPIC_AUTHORIZATION_FAILED"):
            audit([f"kafka://{broker.bootstrap}"], engine="duckdb")
        verdict = audit([f"kafka://{broker.bootstrap}"], wire=Wire(spool=tmp_path / "spool"), engine="duckdb")
    assert verdict.exit_code == 2
    assert "t-0: cannot be fetched at offset 0: TOPIC_AUTHORIZATION_FAILED" in verdict.directories[0].problems


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"replicas": True}, "only leaders"),
        ({"engine": "spark", "wire": Wire(bytes_per_second=5)}, "--spool"),
        ({"wire": Wire(spool=Path(__file__).parent)}, "no spool"),
    ],
)
def test_unsupported_options_over_the_wire_are_rejected(options: dict[str, object], reason: str, tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, pytest.raises(CannotJudge, match=reason):
        audit([f"kafka://{broker.bootstrap}"], **options)  # type: ignore[arg-type]  # one of several types each


def test_bootstrap_server_is_an_additional_path_and_no_path_is_rejected() -> None:
    assert with_server(["a"], "h:1") == ["a", "kafka://h:1"]
    with pytest.raises(typer.BadParameter):
        with_server(None, None)


def test_leader_lost_during_the_audit_is_reported_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ATTEMPTS", 2)
    with RunningBroker(tmp_path / "data", faults=["error:api=Fetch,code=NOT_LEADER_OR_FOLLOWER"]) as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", b"one")
        with pytest.raises(CannotJudge, match="t-0: cannot be fetched at offset 0: NOT_LEADER_OR_FOLLOWER"):
            audit([f"kafka://{broker.bootstrap}"], engine="duckdb")
