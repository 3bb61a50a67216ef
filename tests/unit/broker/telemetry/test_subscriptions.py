"""Combined telemetry subscriptions. The expected subscription ids are those that Apache Kafka 4.3.1 gave the same client."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla.broker.telemetry.subscriptions import ClientSubscription, MetricsSubscriptions, Pusher
from ottla.protocol.uuids import encode_uuid

ANN = hashlib.sha256(b"ann").digest()[:16]
PUSHER = Pusher(1, "client", "software", "1.25", "0:0:0:0:0:0:0:1", 40_000)


def wanted(*subscriptions: Mapping[str, str], **changes: Any) -> ClientSubscription:
    """Return the subscription that `PUSHER`, with these changes, gets from all of these resources."""
    found = MetricsSubscriptions()
    for number, configs in enumerate(subscriptions):
        found.change(f"telemetry-{number}", configs)
    return found.subscription_of(ANN, PUSHER._replace(**changes).attributes(ANN))


@pytest.mark.parametrize(
    ("subscriptions", "expected"),
    [
        ([], ClientSubscription(1813420910, (), 300_000)),
        ([{"interval.ms": "100"}], ClientSubscription(-1636868296, (), 100)),
        ([{"metrics": "a,*"}, {"metrics": "b"}], ClientSubscription(-2071670893, ("*",), 300_000)),
        ([{"metrics": "d,c,b,a", "interval.ms": "1000"}], ClientSubscription(-813209489, ("a", "b", "c", "d"), 1000)),
        ([{"metrics": "BB,Aa,C#"}, {"metrics": "C#,Aa,BB"}], ClientSubscription(1938181986, ("C#", "Aa", "BB"), 300_000)),
        ([{"metrics": "a", "interval.ms": "3600000"}], ClientSubscription(133924626, ("a",), 300_000)),
    ],
)
def test_subscriptions_are_merged_under_kafkas_id(subscriptions: Sequence[Mapping[str, str]], expected: ClientSubscription) -> None:
    assert wanted(*subscriptions) == expected


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("client_id=cl.*", True),
        ("client_id=clien", False),
        ("client_id=lient", False),
        ("client_id=CLIENT", False),
        ("client_software_name=software , client_software_version=1\\.\\d+", True),
        ("client_software_name=software,client_software_version=1", False),
        ("client_source_address=0:0:0:0:0:0:0:1", True),
        ("client_source_address=::1", False),
        ("client_source_port=4\\d*", True),
        ("client_source_port=4", False),
        (f"client_instance_id={encode_uuid(ANN)}", True),
        ("client_id=nobody,client_id=client", True),
        ("client_id=client,client_id=nobody", False),
    ],
)
def test_every_expression_must_match_the_whole_attribute(match: str, matches: bool) -> None:
    assert wanted({"metrics": "a", "match": match}).metrics == (("a",) if matches else ())


def test_a_client_without_a_client_id_matches_no_client_id_expression() -> None:
    assert wanted({"metrics": "a", "match": "client_id=.*"}, client_id=None).metrics == ()


@pytest.mark.parametrize("configs", [{"match": "client_id=(?=a)a"}, {"match": "client_id=(a)\\1"}, {"interval.ms": "often"}])
def test_an_invalid_subscription_matches_no_client_and_is_logged(configs: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert wanted({"metrics": "a", **configs}, {"metrics": "b"}).metrics == ("b",)
    assert "telemetry-0" in caplog.text


def test_an_expression_does_not_backtrack() -> None:
    assert wanted({"metrics": "a", "match": "client_id=(a+)+b"}, client_id="a" * 30_000).metrics == ()


def test_every_change_increases_the_version() -> None:
    found = MetricsSubscriptions()
    found.change("s", {})
    assert found.version == 0
    for configs in ({"metrics": "a"}, {"metrics": "a"}, {}):
        found.change("s", configs)
    assert found.version == 3
    assert found.subscription_of(ANN, PUSHER.attributes(ANN)).metrics == ()
