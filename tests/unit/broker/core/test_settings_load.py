from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.settings_load import SettingsError, data_dir, load, parse_assignments


def file_with(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return path


def test_the_command_line_overrides_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    file = file_with(tmp_path, "num.partitions=2\nlog.segment.bytes=2000000\nfetch.max.bytes=2000\n")
    env = {"OTTLA_NUM_PARTITIONS": "3", "OTTLA_LOG_SEGMENT_BYTES": "3000000", "PATH": "/bin"}
    settings = load({"num.partitions": "4"}, env, file).settings
    assert (settings.num_partitions, settings.log_segment_bytes, settings.fetch_max_bytes) == (4, 3_000_000, 2000)
    assert settings.explicit == {"num.partitions": "command line", "log.segment.bytes": "environment", "fetch.max.bytes": "file"}


def test_an_unknown_name_stops_the_start_and_suggests_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"Unknown setting log\.segment\.byte .*did you mean log\.segment\.bytes\?"):
        load({"log.segment.byte": "1"}, {}, None)


def test_an_unknown_name_in_the_environment_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"num\.partition \(from the environment\); did you mean num\.partitions\?"):
        load({}, {"OTTLA_NUM_PARTITION": "1"}, None)


def test_an_invalid_value_stops_the_start_with_name_value_and_problem() -> None:
    with pytest.raises(SettingsError, match=r"Invalid value many for configuration num\.partitions: Not a number of type INT"):
        load({"num.partitions": "many"}, {}, None)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load({"num.partitions": "0", "nonsense": "1", "log.segment.bytes": "x"}, {}, None)
    assert len(str(caught.value).splitlines()) == 3


def test_kafkas_server_properties_are_accepted_with_notes_about_settings_without_effect(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
num.recovery.threads.per.data.dir=1
log.retention.hours=168
""",
    )
    loaded = load({}, {}, file)
    assert data_dir(loaded.settings) == Path("/tmp/kraft-combined-logs")
    assert len(loaded.notes) == 4
    assert any("num.io.threads" in note for note in loaded.notes)


@pytest.mark.parametrize("name", ["metric.reporters", "controlled.shutdown.max.retries", "share.coordinator.threads", "cordoned.log.dirs"])
def test_kafka_settings_without_effect_do_not_stop_the_start(name: str) -> None:
    loaded = load({name: "1"}, {}, None)
    assert loaded.notes == [f"{name} (command line) is a Kafka setting that has no effect here"]


def test_the_migration_policy_is_case_insensitive() -> None:
    assert load({"group.consumer.migration.policy": "UPGRADE"}, {}, None).settings.group_consumer_migration_policy == "UPGRADE"
    with pytest.raises(SettingsError, match="bidirectional"):
        load({"group.consumer.migration.policy": "SOMETIMES"}, {}, None)


def test_broker_id_is_an_alias_of_node_id(tmp_path: Path) -> None:
    assert load({}, {}, file_with(tmp_path, "broker.id=7\n")).settings.node_id == 7
    assert load({"node.id": "8"}, {}, file_with(tmp_path, "broker.id=7\n")).settings.value("broker.id") == 8


def test_different_ids_in_one_source_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"broker\.id=7 and node\.id=8 must be the same"):
        load({}, {}, file_with(tmp_path, "broker.id=7\nnode.id=8\n"))


def test_a_later_sources_data_directory_wins_under_either_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/of/the/file\n")
    assert data_dir(load({}, {}, file).settings) == Path("/of/the/file")
    assert data_dir(load({}, {"OTTLA_LOG_DIR": "/of/the/environment"}, file).settings) == Path("/of/the/environment")
    assert data_dir(load({"log.dir": "/of/the/line"}, {"OTTLA_LOG_DIRS": "/other"}, file).settings) == Path("/of/the/line")
    assert data_dir(load({"log.dir": "/one", "log.dirs": "/two"}, {}, None).settings) == Path("/two")


def test_several_data_directories_are_rejected() -> None:
    with pytest.raises(SettingsError, match=r"log\.dirs"):
        load({"log.dirs": "/a,/b"}, {}, None)


def test_a_standalone_node_rejects_a_replication_factor_above_one() -> None:
    with pytest.raises(SettingsError, match=r"offsets\.topic\.replication\.factor=3"):
        load({"offsets.topic.replication.factor": "3"}, {}, None)


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*absent: No such file or directory$"):
        load({}, {}, tmp_path / "absent")


def test_an_assignment_is_split_at_its_first_equals_sign() -> None:
    assert parse_assignments(["a=b=c"]) == {"a": "b=c"}
    with pytest.raises(SettingsError, match="name=value"):
        parse_assignments(["a"])


@pytest.mark.parametrize(
    "given",
    [
        {"group.consumer.session.timeout.ms": "44999"},
        {"group.consumer.session.timeout.ms": "60001"},
        {"group.consumer.heartbeat.interval.ms": "100"},
        {"group.consumer.min.session.timeout.ms": "50000"},
        {"group.consumer.assignors": ""},
        {"group.consumer.assignors": "uniform,mine"},
        {"group.consumer.migration.policy": "sideways"},
        {"group.consumer.sesion.timeout.ms": "45000"},
    ],
)
def test_consumer_group_settings_are_validated(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"group\.consumer"):
        load(given, {}, None)


def test_a_shorter_session_timeout_requires_a_lower_minimum() -> None:
    loaded = load({"group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "1000"}, {}, None)
    assert loaded.settings.group_consumer_session_timeout_ms == 1000


def test_variables_of_the_command_line_tools_are_not_settings() -> None:
    assert load({}, {"OTTLA_BOOTSTRAP_SERVER": "localhost:9092", "OTTLA_ADMIN": "localhost:9644"}, None).notes == []


@pytest.mark.parametrize("given", ["consumer", "", "classic,,", "classic,mine", "CLASSIC"])
def test_invalid_rebalance_protocols_stop_the_start(given: str) -> None:
    with pytest.raises(SettingsError, match=r"group\.coordinator\.rebalance\.protocols"):
        load({"group.coordinator.rebalance.protocols": given}, {}, None)


def test_rebalance_protocols_are_parsed() -> None:
    given = load({"group.coordinator.rebalance.protocols": "classic, share"}, {}, None).settings
    assert given.group_coordinator_rebalance_protocols == ("classic", "share")
