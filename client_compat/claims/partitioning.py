"""Claims (common statements) about how keys choose partitions, and about interceptors. In docs/exactly-once.md: 23, 24."""

from __future__ import annotations

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.matrix.facades import Producer, Record
from client_compat.matrix.murmur2 import partition_of

PARTITIONS = 7
KEYS = [b"key-%d" % number for number in range(40)]
OWN = "confluent-kafka"
"""The client that is expected to choose other partitions for keys than the Java client does: librdkafka's default partitioner,
consistent_random, uses CRC-32 instead of murmur2."""


@claim(23, "Without partition or partitioner, a key goes to murmur2(key) mod partitions (Java, and clients that copy it)")
def murmur(environment: ClaimEnvironment) -> CheckResult:
    agree = {}
    for name in environment.names:
        topic = environment.topic(PARTITIONS)
        producer = environment.client(name).producer(acks="all")
        sent = producer.send_ok(topic, [Record(b"v", key) for key in KEYS])
        producer.close()
        agree[name] = sum(one.partition == partition_of(key, PARTITIONS) for key, one in zip(KEYS, sent, strict=True))
    held = all((count == len(KEYS)) == (name != OWN) for name, count in agree.items())
    evidence = [f"{name}: {count} of {len(KEYS)} keys where murmur2 puts them" for name, count in agree.items()]
    return CheckResult(
        held, "librdkafka's default differs (CRC-32): the same key goes elsewhere, unless partitioner=murmur2_random", evidence
    )


@claim(24, "One failing interceptor does not stop the others", java=True)
def interceptors(environment: ClaimEnvironment) -> CheckResult:
    topic, client = environment.topic(), environment.client("java")
    handle = client.program.new_handle("producer")
    client.program.call("producer.open", handle=handle, bootstrap=client.bootstrap, interceptor="failing")
    producer = Producer(client.program, handle)
    producer.send_ok(topic, [Record(b"x", partition=0)])
    producer.close()
    found = [record.headers for record in environment.truth.records(topic)]
    held = [list(headers) for headers in found] == [[("intercepted", b"1")]]
    return CheckResult(held, "the first interceptor throws in onSend, the second one's header is in the log", [f"stored headers: {found}"])
