"""What the environment variables of Kafka's images mean; tests/scenario/test_in_kafkas_place.py starts containers with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import javaproperties
import pytest

from ottla.broker.cli.kafka_image.logins import of_bitnami, secret_files
from ottla.broker.cli.kafka_image.plan import CLUSTER_ID, WITHOUT_VARIABLES, ImageStart, planned
from ottla.broker.cli.kafka_image.program import main
from ottla.broker.cli.kafka_image.variables import Flavour, asks_for_kafka, flavour_of, property_of, settings_of, with_files
from ottla.broker.cli.kafka_tools.server_start import main as server_start
from ottla.broker.cli.serve import KafkaReplacement
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.storage.meta_properties import MetaProperties, encode_meta

APACHE, CONFLUENT, BITNAMI = Flavour.APACHE, Flavour.CONFLUENT, Flavour.BITNAMI


@pytest.mark.parametrize(
    ("flavour", "variable", "name"),
    [
        (APACHE, "NUM_PARTITIONS", "num.partitions"),
        (APACHE, "A__B", "a_b"),
        (APACHE, "LISTENER_NAME_A___B_SASL_JAAS_CONFIG", "listener.name.a-b.sasl.jaas.config"),
        (APACHE, "LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG", "listener.name.secure.scram-sha-512.sasl.jaas.config"),
        (APACHE, "A____B", "a-.b"),
        (BITNAMI, "LISTENER_NAME_SASL_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG", "listener.name.sasl_plaintext.plain.sasl.jaas.config"),
        (BITNAMI, "LISTENER_NAME_SASL_SSL_X", "listener.name.sasl_ssl.x"),
        (BITNAMI, "A__B", "a..b"),
    ],
)
def test_variable_names_map_to_settings_as_in_the_imitated_image(flavour: Flavour, variable: str, name: str) -> None:
    assert property_of(variable, flavour) == name


def test_variables_of_the_jvm_or_the_image_are_not_settings() -> None:
    env = {"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_LOG4J_LOGGERS": "a=b", "KAFKA_CREATE_TOPICS": "a:1:1", "KAFKA_JMX_PORT": "1", "PATH": "/"}
    for flavour in Flavour:
        assert settings_of(flavour, env) == {}
    assert not asks_for_kafka({"KAFKA_HEAP_OPTS": "-Xmx1G", "OTTLA_LOG_DIR": "/data"})
    assert asks_for_kafka({"KAFKA_NODE_ID": "1"})


def test_bitnamis_older_variable_names_win_and_passwords_can_be_read_from_files(tmp_path: Path) -> None:
    env = {"KAFKA_CFG_NODE_ID": "1", "KAFKA_NODE_ID": "2", "KAFKA_MAX_MESSAGE_BYTES": "10", "KAFKA_CLIENT_USERS": "a", "KAFKA_SPEED": "1"}
    assert settings_of(BITNAMI, env) == {"node.id": "2", "message.max.bytes": "10"}
    assert flavour_of(env) is BITNAMI
    assert flavour_of({"KAFKA_NODE_ID": "2"}) is APACHE
    (tmp_path / "secret").write_text("open sesame\n")
    assert with_files({"KAFKA_CLIENT_PASSWORDS_FILE": str(tmp_path / "secret")}) == {"KAFKA_CLIENT_PASSWORDS": "open sesame"}


def test_secrets_file_that_is_missing_or_not_text_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"KAFKA_CLIENT_PASSWORDS_FILE: .*secret is not text in UTF-8"):
        with_files({"KAFKA_CLIENT_PASSWORDS_FILE": str(tmp_path / "secret")})
    with pytest.raises(SettingsError, match=r"KAFKA_CLIENT_PASSWORDS_FILE: .*none cannot be read: No such file"):
        with_files({"KAFKA_CLIENT_PASSWORDS_FILE": str(tmp_path / "none")})


def plan(env: Mapping[str, str], mounted: Mapping[str, str] | None = None, flavour: Flavour | None = CONFLUENT) -> ImageStart:
    return planned(flavour, {"KAFKA_LOG_DIRS": "/no/where", **env}, mounted or {}, env_flavour=flavour or flavour_of(env))


def test_listeners_are_derived_from_advertised_listeners() -> None:
    settings = plan({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1,X://[::1]:2"}).settings
    assert settings["listeners"] == "PLAINTEXT://0.0.0.0:1,X://0.0.0.0:2"
    with pytest.raises(SettingsError, match="not supported on a KRaft controller"):
        plan({"KAFKA_PROCESS_ROLES": "controller", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1"})


def test_zookeeper_settings_are_accepted_with_warnings() -> None:
    made = plan(
        {
            "KAFKA_ZOOKEEPER_CONNECT": "z:2181",
            "KAFKA_ADVERTISED_HOST_NAME": "h",
            "KAFKA_PORT": "99",
            "KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer",
        }
    )
    assert made.settings == {
        "advertised.listeners": "PLAINTEXT://h:99",
        "listeners": "PLAINTEXT://:99",
        "log.dirs": "/no/where",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    assert len(made.warnings) == 3


def test_given_cluster_id_applies_unless_the_directory_has_another(tmp_path: Path) -> None:
    roles = {"KAFKA_PROCESS_ROLES": "broker,controller", "KAFKA_LOG_DIRS": str(tmp_path)}
    assert plan(roles).settings["cluster.id"] == CLUSTER_ID
    assert plan({**roles, "CLUSTER_ID": "given"}).settings["cluster.id"] == "given"
    assert plan({**roles, "KAFKA_KRAFT_CLUSTER_ID": "theirs"}, flavour=BITNAMI).settings["cluster.id"] == "theirs"
    assert len(plan(roles, flavour=BITNAMI).settings["cluster.id"]) == 22
    (tmp_path / "meta.properties").write_bytes(encode_meta(MetaProperties("known", 1, bytes(16)), 0))
    assert plan({**roles, "CLUSTER_ID": "given"}).settings["cluster.id"] == "known"
    assert "cluster.id" not in plan({}, {"num.partitions": "3"}).settings


def test_variables_override_a_mounted_file_and_without_either_apaches_defaults_apply() -> None:
    assert plan({"KAFKA_NUM_PARTITIONS": "4"}, {"num.partitions": "3", "log.dir": "x"}).settings["num.partitions"] == "4"
    made = planned(APACHE, {}, {}, env_flavour=APACHE)
    assert made.settings == {**WITHOUT_VARIABLES, "cluster.id": CLUSTER_ID}


LOCKED = {
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
    "KAFKA_LISTENERS": "CLIENT://:9092,CONTROLLER://:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
}


def test_bitnamis_users_and_nodes_authenticate_by_plain_and_scram() -> None:
    env = {
        **{name.replace("KAFKA_", "KAFKA_CFG_"): value for name, value in LOCKED.items()},
        "KAFKA_CLIENT_USERS": "alice,bob",
        "KAFKA_CLIENT_PASSWORDS": 'a;"b"',
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
        "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "CLIENT",
        "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "SCRAM-SHA-512",
        "KAFKA_CFG_SASL_MECHANISM_CONTROLLER_PROTOCOL": "PLAIN",
        "KAFKA_CONTROLLER_USER": "boss",
        "KAFKA_CONTROLLER_PASSWORD": "c",
    }
    made = plan(env, flavour=BITNAMI)
    texts = {name: text.partition(" ")[2] for name, text in made.settings.items() if name.endswith(".sasl.jaas.config")}
    assert texts == {
        "listener.name.client.plain.sasl.jaas.config": (
            r'required username="user" password="bitnami" user_alice="a" user_bob="\"b\"" user_user="bitnami";'
        ),
        "listener.name.client.scram-sha-256.sasl.jaas.config": 'required username="user" password="bitnami";',
        "listener.name.controller.plain.sasl.jaas.config": 'required username="boss" password="c" user_boss="c";',
    }
    assert made.scram == [
        "SCRAM-SHA-256=[name=alice,password=a]",
        'SCRAM-SHA-256=[name=bob,password="b"]',
        "SCRAM-SHA-512=[name=user,password=bitnami]",
    ]
    with pytest.raises(SettingsError, match="KAFKA_CLIENT_PASSWORDS has 2 passwords for 1 KAFKA_CLIENT_USERS"):
        plan({**env, "KAFKA_CLIENT_USERS": "alice"}, flavour=BITNAMI)


def test_certificates_are_found_where_the_images_expect_them(tmp_path: Path) -> None:
    (tmp_path / "store.p12").touch()
    (tmp_path / "creds").write_text("secret\n")
    env = {"KAFKA_SSL_KEYSTORE_FILENAME": "store.p12", "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds"}
    assert dict(secret_files(env, tmp_path)) == {"ssl.keystore.location": str(tmp_path / "store.p12"), "ssl.keystore.password": "secret"}
    for name in ("KAFKA_SSL_TRUSTSTORE_FILENAME", "KAFKA_SSL_KEY_CREDENTIALS"):
        with pytest.raises(SettingsError, match=name):
            dict(secret_files({name: "nothing"}, tmp_path))
    with pytest.raises(SettingsError, match=r"TLS needs kafka\.keystore\.jks"):
        of_bitnami({"KAFKA_TLS_TRUSTSTORE_FILE": "/t"}, {"listeners": "SSL://:9092"})


def test_configure_writes_the_settings_without_the_cluster_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**LOCKED, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KAFKA_LOG_DIRS", str(tmp_path / "data"))
    file = tmp_path / "kafka.properties"
    assert main(["configure", "confluent", str(file)]) == 0
    with file.open() as lines:
        written = javaproperties.load(lines)
    assert (written["listeners"], "cluster.id" in written) == ("CLIENT://:9092,CONTROLLER://:9093", False)
    assert main(["configure", "confluent", str(tmp_path / "no" / "file")]) == 1
    assert main(["configure", "redpanda", str(file)]) == 2
    assert main(["run", "apache", "nothing"]) == 2
    monkeypatch.setenv("OTTLA_OPTIONS", "--admin-token 'half")
    for start, argv in ((main, ["run", "apache"]), (server_start, [str(file)])):
        assert (start(argv), "OTTLA_OPTIONS is not a valid command line: No closing quotation" in capsys.readouterr().err) == (
            2,
            True,
        )


def test_setting_error_names_the_variable_that_it_came_from() -> None:
    place = KafkaReplacement(variables={"num.partitions": "KAFKA_NUM_PARTITIONS", "log.dir": "KAFKA_LOG_DIR"})
    assert place.origin("num.partitions=x: no") == "\n(num.partitions comes from KAFKA_NUM_PARTITIONS)"
    assert place.origin("log.dirs=x: no") == ""
