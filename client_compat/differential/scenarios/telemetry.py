"""Compare Ottla with Apache Kafka by client telemetry requests (KIP-714): subscriptions, the time limits for pushes, and rejections.

Client instance ids are fixed by the scenarios, so that subscription ids, which are computed from them, are equal at both brokers.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from client_compat.differential.normalise import normalise
from client_compat.differential.probe import Probe, Seen
from client_compat.differential.scenarios.common import until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k33_alter_configs as k33
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.uuids import encode_uuid

CLIENT_METRICS = 16
MAX_BYTES = 1_048_576
OTLP = bytes.fromhex("0a0e120c120a0a01612205120319f03f")
ZERO, ONE = bytes(16), bytes(15) + b"\x01"
PREFIX = "org.apache.kafka."
MANY = [
    f"{PREFIX}{kind}.{name}." for kind in ("producer", "consumer", "admin") for name in ("connection", "node", "request", "records", "x")
]


def instance(name: str) -> bytes:
    """Return a client instance id that depends on `name` only."""
    return hashlib.sha256(name.encode()).digest()[:16]


ANN = instance("ann")

ASKED: Mapping[str, list[Mapping[str, str]]] = {
    "nothing but an interval": [{"interval.ms": "100"}],
    "no metrics": [{"metrics": "", "interval.ms": "300000"}],
    "everything": [{"metrics": "*"}],
    "everything, and more": [{"metrics": "a,*"}, {"metrics": "b"}],
    "a few": [{"metrics": "d,c,b,a", "interval.ms": "1000"}],
    "many": [{"metrics": ",".join(MANY)}],
    "many, of several": [{"metrics": ",".join(MANY[at::3] + MANY[:4]), "interval.ms": str(9000 - at)} for at in range(3)],
    "names of one hash": [{"metrics": "BB,Aa,C#"}, {"metrics": "C#,Aa,BB"}],
    "seldom": [{"metrics": "a", "interval.ms": "3600000"}],
    "of nobody": [{"metrics": "a", "match": "client_id=nobody"}],
    "of a part of a name": [{"metrics": "a", "match": "client_id=differ"}],
    "of the whole name": [{"metrics": "a", "match": "client_id=differential"}],
    "of an expression": [{"metrics": "a", "match": "client_id=diff.*|other"}],
    "of another case": [{"metrics": "a", "match": "client_id=DIFF.*"}, {"metrics": "b", "match": "client_id=(?i)DIFF.*"}],
    "of an instance": [{"metrics": "a", "match": f"client_instance_id={encode_uuid(ANN)}"}],
    "of another instance": [{"metrics": "a", "match": f"client_instance_id={encode_uuid(ONE)}"}],
    "of software": [{"metrics": "a", "match": "client_software_name=differ.*,client_software_version=[12]\\.\\d+"}],
    "of other software": [{"metrics": "a", "match": "client_software_name=differ.*,client_software_version=3"}],
    "of software without a name": [{"metrics": "a", "match": "client_software_name=unknown,client_software_version=unknown"}],
    "of an address": [{"metrics": "a", "match": "client_source_address=127\\.0\\.0\\.1"}],
    "of another address": [{"metrics": "a", "match": "client_source_address=10\\..*"}],
    "of any port": [{"metrics": "a", "match": "client_source_port=[1-9]\\d+"}],
    "of another port": [{"metrics": "a", "match": "client_source_port=1"}],
    "of one parameter twice": [{"metrics": "a", "match": "client_id=nobody,client_id=differential"}],
}
"""Sets of metrics subscriptions, by label. The subscriptions of a set exist at the same time."""


def subscribe(probe: Probe, names: Mapping[str, Mapping[str, str] | None]) -> None:
    """Create the metrics subscriptions in `names`, or delete those that are None there, and wait until the broker has applied the
    changes."""
    for name, configs in names.items():
        wanted = [k33.AlterableConfig(key, value) for key, value in (configs or {}).items()]
        answer = probe.ask_unrecorded(k33.AlterConfigsRequest([k33.AlterConfigsResource(CLIENT_METRICS, name, wanted)]), 2)
        assert answer.responses[0].error_code == ErrorCode.NONE, (configs, answer)
    for _ in until("subscriptions are known"):
        listed = {one.resource_name for one in probe.ask_unrecorded(ListConfigResourcesRequest([CLIENT_METRICS]), 1).config_resources}
        if all((name in listed) == bool(configs) for name, configs in names.items()):
            return


def get(probe: Probe, label: str, instance_id: bytes, on: str = "main") -> Any:
    return probe.ask(label, GetTelemetrySubscriptionsRequest(instance_id), 0, on=on)


def push(probe: Probe, label: str, instance_id: bytes, subscription_id: int, **fields: Any) -> Any:
    on = fields.pop("on", "main")
    return probe.ask(label, PushTelemetryRequest(instance_id, subscription_id, **{"metrics": OTLP, **fields}), 0, on=on)


def asked(probe: Probe) -> None:
    """Get a client instance's telemetry subscription after each change of the metrics subscriptions, without waiting for a push
    interval."""
    if not probe.knows(ApiKey.PUSH_TELEMETRY):
        return
    subscribe(probe, {"own-metrics": None})
    probe.ask("of no subscription", GetTelemetrySubscriptionsRequest(ANN), 0)
    probe.ask("who it is", ApiVersionsRequest("differential", "1.25"), 3, on="named")
    for label, subscriptions in ASKED.items():
        named = {f"telemetry-{number}": configs for number, configs in enumerate(subscriptions)}
        subscribe(probe, named)
        get(probe, label, ANN)
        get(probe, f"{label}, with a name", instance("named"), on="named")
        get(probe, f"{label}, again", ANN)
        subscribe(probe, dict.fromkeys(named))
    get(probe, "of a reserved id", ONE)
    response = probe.ask_unrecorded(GetTelemetrySubscriptionsRequest(ZERO), 0)
    high, low = struct.unpack(">QQ", response.client_instance_id)
    folded = high ^ low
    seed = response.subscription_id & 0xFFFFFFFF ^ folded >> 32 ^ folded & 0xFFFFFFFF
    shown = replace(response, subscription_id=seed)
    probe.seen.append(
        Seen("an id is made; that of its subscription without it", "GET_TELEMETRY_SUBSCRIPTIONS", 0, normalise(shown, probe.names))
    )


def times(probe: Probe) -> None:
    """Get telemetry subscriptions and push metrics, in time and earlier than the broker permits."""
    if not probe.knows(ApiKey.PUSH_TELEMETRY):
        return
    subscribe(probe, {"own-metrics": None, "telemetry-times": {"metrics": "*", "interval.ms": "300000"}})
    first = get(probe, "get", ANN)
    sub = first.subscription_id
    get(probe, "get too early", ANN)
    push(probe, "push after a get", ANN, sub)
    push(probe, "push too early", ANN, sub)
    push(probe, "of a wrong subscription, too early", ANN, sub + 1)
    get(probe, "get after a push", ANN)
    push(probe, "end, too early", ANN, sub, terminating=True)
    push(probe, "push after the end", ANN, sub)
    push(probe, "push after that", ANN, sub)
    push(probe, "end again", ANN, sub, terminating=True)
    push(probe, "end after the end", ANN, sub, terminating=True)
    get(probe, "get after the end", ANN)
    bob = instance("bob")
    unknown = push(probe, "push before any get", bob, 77)
    assert unknown.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    sub = get(probe, "get at once", bob).subscription_id
    get(probe, "get again", bob)
    push(probe, "an unknown compression", bob, sub, compression_type=5)
    get(probe, "get at once after that", bob)
    push(probe, "push after that", bob, sub)
    subscribe(probe, {"telemetry-times": {"metrics": "a", "interval.ms": "100"}, "telemetry-soon": {"metrics": "b"}})
    for _ in until("both subscriptions are known"):
        if probe.ask_unrecorded(GetTelemetrySubscriptionsRequest(ZERO), 0).requested_metrics == ["a", "b"]:
            break
    push(probe, "of what was before", bob, sub)
    sub = get(probe, "of what is now", bob).subscription_id
    push(probe, "of what is now", bob, sub)
    try:
        for _ in until("the interval is over"):
            if probe.ask_unrecorded(PushTelemetryRequest(bob, sub, metrics=OTLP), 0).error_code == ErrorCode.NONE:
                break
    finally:  # a release before 4.0 does not give a subscription so early
        subscribe(probe, {"telemetry-times": None, "telemetry-soon": None})


def gone(probe: Probe) -> None:
    """Close connections that client instances used. The broker then forgets the client instance that a connection used last."""
    if not probe.knows(ApiKey.PUSH_TELEMETRY):
        return
    subscribe(probe, {"own-metrics": None})
    eve = instance("eve")
    sub = get(probe, "get", eve, on="first").subscription_id
    push(probe, "push", eve, sub, on="first")
    push(probe, "from another connection", eve, sub)
    probe.hang_up("first")
    for _ in until("the instance is gone"):
        if probe.ask_unrecorded(GetTelemetrySubscriptionsRequest(eve), 0).error_code == ErrorCode.NONE:
            break
    push(probe, "from that connection, then", eve, sub)
    both = [instance("one of two"), instance("two of two")]
    for each in both:
        get(probe, "two on one connection", each, on="both")
    probe.hang_up("both")
    for _ in until("the last one is gone"):
        if probe.ask_unrecorded(GetTelemetrySubscriptionsRequest(both[1]), 0).error_code == ErrorCode.NONE:
            break
    get(probe, "the first one stays", both[0])


def mistakes(probe: Probe) -> None:
    """Push metrics with reserved client instance ids. Then push metrics that are empty, undecodable, too large, compressed, wrongly
    compressed, or of an unknown compression type. After each of these pushes, get the subscription, and push twice more as a terminating
    client."""
    if not probe.knows(ApiKey.PUSH_TELEMETRY):
        return
    subscribe(probe, {"own-metrics": None})
    for name, instance_id in {"zero": ZERO, "one": ONE}.items():
        push(probe, f"of the id {name}", instance_id, 0)
    zeros = bytes(MAX_BYTES)
    cases: dict[str, dict[str, Any]] = {
        "nothing": {"metrics": b""},
        "nothing, compressed": {"metrics": b"", "compression_type": Codec.ZSTD},
        "no OTLP": {"metrics": b"what is this?"},
        "as much as there may be": {"metrics": zeros},
        "more than there may be": {"metrics": zeros + b"\0"},
        "more than there may be, of an unknown compression": {"metrics": zeros + b"\0", "compression_type": 7},
        "a compression below all": {"compression_type": -1},
        "a compression above all": {"compression_type": 5},
    }
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        name = codec.name.lower()
        cases[f"{name}"] = {"metrics": compress(codec, OTLP), "compression_type": codec}
        cases[f"{name} that is none"] = {"metrics": b"not compressed at all", "compression_type": codec}
        cases[f"{name}, cut"] = {"metrics": compress(codec, bytes(range(256)) * 9)[:-5], "compression_type": codec}
        cases[f"{name} of as much as there may be"] = {"metrics": compress(codec, zeros), "compression_type": codec}
        cases[f"{name} of more than there may be"] = {"metrics": compress(codec, zeros + b"\0"), "compression_type": codec}
    for label, fields in cases.items():
        each = instance(label)
        sub = probe.ask_unrecorded(GetTelemetrySubscriptionsRequest(each), 0).subscription_id
        push(probe, label, each, sub, **fields)
        get(probe, f"{label}: then", each)
        push(probe, f"{label}: the end", each, sub, terminating=True, **fields)
        push(probe, f"{label}: after the end", each, sub, terminating=True, **fields)
