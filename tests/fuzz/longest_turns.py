"""`python -m tests.fuzz.longest_turns`: how long the largest legal request of each API holds the loop of a broker.

What is measured is the processor time of the loop's thread between two looks of a callback that runs in every turn. A request is asked for
alone and twelve times in one piece, by anybody at an open broker, and at one with an authorizer by a user without rights and by a super
user. One that a broker refuses for its size is made half as large until it is answered.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from client_compat.fuzz.largest import ELEMENTS, largest
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_request, request_class
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.schema import Message
from tests.support.loop_watch import LoopWatch, watched

GOAL_MS: Final = 20.0
MOST_MS: Final = 50.0
PIPELINED: Final = 12
SMALLEST: Final = 50
"""A request that is refused with so few elements is not refused for its size."""
GC_THRESHOLDS: Final = (20_000, 2_000, 10)
"""Those of a broker's process."""
OPEN: Final[dict[str, str]] = {}
WITHOUT_RIGHTS: Final = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
SUPER: Final = {**WITHOUT_RIGHTS, "super.users": "User:ANONYMOUS"}
ASKERS: Final = {"anybody": OPEN, "without rights": WITHOUT_RIGHTS, "super user": SUPER}
LEFT_OUT: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS})


@dataclass(frozen=True, slots=True)
class Turn:
    """The longest turn of the loop while one kind of request was handled, in milliseconds of its thread's processor time."""

    api: str
    array: str
    asker: str
    requests: int
    size: int
    longest_ms: float


def measure(asker: str, apis: Sequence[int] = (), elements: int = ELEMENTS, pipelined: Sequence[int] = (1, PIPELINED)) -> Iterator[Turn]:
    """Each largest request of `apis` (none: all) to a broker of its own process."""
    with InProcessBroker(settings=ASKERS[asker]) as broker, watched(broker) as watch:
        with Client("127.0.0.1", broker.port) as client:
            versions = {each.api_key: each.max_version for each in client.call(ApiVersionsRequest(), 0).api_keys}
        for key, version in sorted(versions.items()):
            if key not in LEFT_OUT and (not apis or key in apis):
                for array, times, size, longest_ms in _of_api(broker, watch, (key, version), elements, pipelined):
                    yield Turn(ApiKey(key).name, array, asker, times, size, longest_ms)


def _of_api(
    broker: InProcessBroker, watch: LoopWatch, api: tuple[int, int], elements: int, pipelined: Sequence[int]
) -> Iterator[tuple[str, int, int, float]]:
    key, version = api
    for array, request in largest(request_class(key), version, elements):
        found, count = request, elements
        while _longest_ms(broker, watch, found, version, 1) is None and count > SMALLEST:
            count //= 2
            found = dict(largest(request_class(key), version, count))[array]
        for times in pipelined:
            longest_ms = _longest_ms(broker, watch, found, version, times)
            if longest_ms is not None:
                yield array, times, sum(map(len, encode_request(key, version, 1, "turns", found))), longest_ms


def _longest_ms(broker: InProcessBroker, watch: LoopWatch, request: Message, version: int, times: int) -> float | None:
    """None where the broker closes the connection."""
    one = b"".join(encode_request(request.API_KEY, version, 1, "turns", request))
    gc.collect()
    with Client("127.0.0.1", broker.port, timeout_s=120) as client, ThreadPoolExecutor(1) as sender:
        watch.reset()
        try:
            sent = sender.submit(client.send_raw, one * times)  # a broker reads no more while its answers are not taken
            for _ in range(times):
                client.read_frame()
            sent.result()
        except OSError:
            return None
        return watch.longest_ms


def main() -> int:
    """1 where a turn is longer than MOST_MS."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apis", nargs="*", type=int, help="API keys; all by default")
    parser.add_argument("--elements", type=int, default=ELEMENTS, help="how many elements a request names")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    found = []
    for asker in ASKERS:
        for turn in measure(asker, arguments.apis, arguments.elements):
            found.append(turn)
            note = "" if turn.longest_ms <= GOAL_MS else "  over the goal" if turn.longest_ms <= MOST_MS else "  TOO LONG"
            what = f"{turn.api} {turn.array} x{turn.requests}, {turn.asker}, {turn.size:,} bytes"
            print(f"{turn.longest_ms:8.1f} ms  {what}{note}", flush=True)
    over = [turn for turn in found if turn.longest_ms > MOST_MS]
    late = sum(turn.longest_ms > GOAL_MS for turn in found)
    longest_ms = max(turn.longest_ms for turn in found)
    print(f"{len(found)} requests; longest {longest_ms:.1f} ms; {late} over {GOAL_MS:.0f} ms, {len(over)} over {MOST_MS:.0f} ms")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
