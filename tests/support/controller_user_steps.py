"""Steps of `controller_steps` for quotas and SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ottla.protocol.messages import k49_alter_client_quotas as k49
from ottla.protocol.messages import k51_alter_user_scram_credentials as k51
from tests.support.controller_steps import Making, often
from tests.support.kafka_controller import Known, Order, Request

ENTITIES = (("user",), ("client-id",), ("user", "client-id"), ("client-id", "user"), ("ip",))
WRONG_ENTITIES = ((), ("ip", "user"), ("group",))
NAMES = ("a", "b", None)
ADDRESSES = ("127.0.0.1", "::1", None)
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
LIMITS = (1.0, 5.0, 5.0, 2.0**31 - 1)
WRONG_LIMITS = (1.5, 0.0, -1.0, 1e-7, 3.0000001, 2.0**31, 2.0**63, 2.0**64)
ITERATIONS = (4096, 8192, 16_384)
WRONG_ITERATIONS = (4095, 16_385, 0, -1)


def quota_of(random: Random, kinds: tuple[str, ...]) -> k49.OpData:
    key = "connection_creation_rate" if ("ip" in kinds) == often(random, 95) else random.choice((*QUOTAS, "no.such"))
    return k49.OpData(key, random.choice(LIMITS if often(random) else WRONG_LIMITS), not often(random, 70))


def alter_quotas(known: Known, random: Random) -> Iterator[Order]:
    """Set and remove quotas."""
    request = k49.AlterClientQuotasRequest([], not often(random, 93))
    for _ in range(random.choice((1, 1, 2, 3))):
        kinds = random.choice(ENTITIES if often(random, 93) else WRONG_ENTITIES)
        names = [random.choice(ADDRESSES if kind == "ip" else NAMES) if often(random, 97) else "" for kind in kinds]
        entity = [k49.EntityData(*part) for part in zip(kinds, names, strict=True)]
        request.entries.append(k49.EntryData(entity, [quota_of(random, kinds) for _ in range(random.choice((0, 1, 1, 2, 3)))]))
    yield Request(request, random.randrange(2))


def alter_users(known: Known, random: Random) -> Iterator[Order]:
    """Set and remove credentials."""

    def who() -> tuple[str, int]:
        return random.choice("abc") if often(random, 97) else "", random.choice((1, 2)) if often(random, 95) else random.choice((0, 3))

    request = k51.AlterUserScramCredentialsRequest()
    for _ in range(random.choice((0, 0, 1, 2))):
        request.deletions.append(k51.ScramCredentialDeletion(*who()))
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        iterations = random.choice(ITERATIONS if often(random, 93) else WRONG_ITERATIONS)
        password = random.choice((b"one", b"other")) if often(random, 97) else b""
        request.upsertions.append(k51.ScramCredentialUpsertion(*who(), iterations, b"salt", password))
    yield Request(request, 0)


KINDS_OF_USERS: dict[Making, int] = {alter_quotas: 2, alter_users: 2}
