"""Lost acknowledgements: a proxy forwards all requests, and closes the connection instead of forwarding some of the responses."""

from __future__ import annotations

from client_compat.clients.options import ProducerOptions
from client_compat.matrix.facades import numbered
from client_compat.matrix.proxy import Losses
from client_compat.matrix.scenario import ScenarioContext, expect, same, scenario
from ottla.protocol.api_keys import ApiKey

COUNT, ROUND, SIZE = 600, 50, 100
"""The load has COUNT records of SIZE bytes. They are sent in rounds of ROUND records, because a client might put all of them into one
request, and then few responses could get lost."""
BATCH_BYTES = 2_000


def _some() -> Losses:
    return Losses(ApiKey.PRODUCE, share=0.3, count_max=8)


def _send(context: ScenarioContext, options: ProducerOptions) -> list[int]:
    """Produce through a proxy that loses responses; return the values stored in the log, read directly from the broker."""
    topic = context.topic()
    producer = context.producer(**options)
    for start in range(0, COUNT, ROUND):
        producer.send_ok(topic, numbered(ROUND, partition=0, size=SIZE, start=start), timeout_ms=60_000)
    producer.close()
    losses = context.broker.proxy.losses if context.broker.proxy else None
    expect(losses is not None and losses.lost > 0, f"no answer was lost of {losses.seen if losses else 0}")
    return [int((value or b"").rstrip(b".")) for value in context.truth.values(topic)]


@scenario("An idempotent producer whose acknowledgements get lost stores every record once, in order.", losses=_some)
def idempotence_with_lost_acks(context: ScenarioContext) -> None:
    same(_send(context, {"acks": "all", "idempotent": True, "batch_bytes": BATCH_BYTES}), list(range(COUNT)), "the log's values")


@scenario(
    "An idempotent producer with five requests in flight whose acknowledgements get lost stores every record once, in order.", losses=_some
)
def idempotence_with_five_in_flight(context: ScenarioContext) -> None:
    options: ProducerOptions = {"acks": "all", "idempotent": True, "batch_bytes": BATCH_BYTES, "max_in_flight": 5, "retries": 1_000}
    same(_send(context, options), list(range(COUNT)), "the log's values")


@scenario("A producer that retries without idempotence loses nothing, but may store records twice.", losses=_some)
def retries_with_lost_acks(context: ScenarioContext) -> None:
    stored = _send(context, {"acks": "all", "idempotent": False, "batch_bytes": BATCH_BYTES, "retries": 1_000})
    same(sorted(set(stored)), list(range(COUNT)), "distinct values of the log")
    expect(len(stored) > COUNT, "no record is there twice, so no lost answer led to a second request")
