"""The false responses of a hostile cluster to requests that a gateway forwards. Each is a function of the connection and the request's
header.

The function sends its bytes and returns. Its connection is then kept open until the gateway closes it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from client_compat.support.brokers import HOST
from ottla.protocol.codec import encode_response
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.k00_produce import ProduceRequest
from ottla.protocol.messages.k01_fetch import FetchRequest
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.k78_share_fetch import ShareFetchRequest
from ottla.protocol.schema import Message
from ottla.protocol.wire import uvarint

Answer = Callable[[socket.socket, RequestHeader], None]

HUGE: Final = 100 * 1024 * 1024
CHUNK: Final = bytes(1024 * 1024)
FIRST_NODE: Final = 5_000
"""Node ids of false responses begin here, so that none takes the place of a good broker."""
CLOSED_PORT: Final = 1
"""A port on which nothing listens."""
METADATA: Final = (MetadataRequest([]), 12)


@dataclass(frozen=True, slots=True)
class HostileResponse:
    """A false response of a hostile cluster. `request` is sent through the gateway in `version`, and `answer` sends the false response to
    it. If `is_refused`, the gateway must close the client's connection."""

    answer: Answer
    request: Message = field(default_factory=lambda: METADATA[0])
    version: int = METADATA[1]
    is_refused: bool = True


def _bytes(make: Callable[[RequestHeader], bytes]) -> Answer:
    return lambda connection, header: connection.sendall(make(header))


def _answer(header: RequestHeader, response: Message) -> bytes:
    return b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, response))


def _frame(header: RequestHeader, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), header.correlation_id) + body


def _brokers(*brokers: tuple[int, str, int]) -> Answer:
    named = MetadataResponse(brokers=[MetadataResponseBroker(*each) for each in brokers])
    return _bytes(lambda header: _answer(header, named))


def _filled(head: bytes, element: bytes, size: int = HUGE) -> Answer:
    """Return an `answer` for a false response of `size` bytes: `head`, the count of an array in compact form, and as many elements
    as fit."""

    def answer(connection: socket.socket, header: RequestHeader) -> None:
        count = size // len(element)
        body = head + uvarint(count + 1)
        connection.sendall(struct.pack(">ii", 4 + len(body) + count * len(element), header.correlation_id) + body)
        each = max(1, len(CHUNK) // len(element))
        for at in range(0, count, each):
            connection.sendall(element * min(each, count - at))

    return answer


def _mid_frame(connection: socket.socket, header: RequestHeader) -> None:
    whole = _answer(header, MetadataResponse(cluster_id="x" * 1_000))
    connection.sendall(whole[: len(whole) // 2])
    connection.close()


def _half_open(connection: socket.socket, header: RequestHeader) -> None:
    connection.sendall(_answer(header, MetadataResponse())[:10])
    connection.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket, _: RequestHeader) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _never(_: socket.socket, __: RequestHeader) -> None:
    return


def _versions(*apis: tuple[int, int, int]) -> Answer:
    claimed = ApiVersionsResponse(api_keys=[ApiVersion(*each) for each in apis])
    return _bytes(lambda header: _answer(header, claimed))


def _long_host(header: RequestHeader) -> bytes:
    return _frame(header, bytes(5) + b"\2" + struct.pack(">i", FIRST_NODE) + uvarint(65_536 + 1) + b"h" * 65_536)


def _twice(header: RequestHeader) -> bytes:
    return _answer(header, MetadataResponse()) * 2


_TOPICS: Final = bytes(5) + b"\1\0" + bytes(4)
"""The first bytes of a Metadata response, up to its array of topics: tags of the header, throttle time, no brokers, no cluster id, a
controller."""
_TOPIC: Final = bytes(2) + b"\2t" + b"\1" * 16 + b"\0"
"""The first bytes of a topic in a Metadata response, up to its array of partitions."""
_ASKS: Final[Mapping[str, tuple[Any, int]]] = {
    "Produce": (ProduceRequest(acks=1), 10),
    "Fetch": (FetchRequest(), 16),
    "ShareFetch": (ShareFetchRequest(), 1),
}
_FIND: Final = (FindCoordinatorRequest(coordinator_keys=["a"]), 4)
_CLUSTER: Final = (DescribeClusterRequest(), 0)
_API_VERSIONS: Final = (ApiVersionsRequest("x", "1"), 3)
_TAG: Final = b"\0"


def _elements() -> Iterator[tuple[str, HostileResponse]]:
    """Yield false responses whose bytes are as many of the smallest array elements as fit, each with its name."""
    broker = struct.pack(">i", FIRST_NODE) + b"\2h" + struct.pack(">i", CLOSED_PORT) + b"\0" + _TAG
    yield "100 MB of brokers", HostileResponse(_filled(bytes(5), broker))
    smallest, largest = (_TOPIC[:2] + uvarint(size + 1) + b"t" * size + _TOPIC[4:] + b"\1" + bytes(4) + _TAG for size in (1, 30_000))
    yield "100 MB of long topics", HostileResponse(_filled(_TOPICS, largest))
    yield "20 MB of topics", HostileResponse(_filled(_TOPICS, smallest, HUGE // 5))
    partition = bytes(14) + b"\1\1\1" + _TAG
    yield "20 MB of partitions", HostileResponse(_filled(_TOPICS + b"\2" + _TOPIC, partition, HUGE // 5))
    coordinator = b"\1" + struct.pack(">i", -1) + b"\1" + struct.pack(">ih", -1, 15) + b"\0" + _TAG
    yield "100 MB of coordinators", HostileResponse(_filled(bytes(5), coordinator), *_FIND)
    node = struct.pack(">i", FIRST_NODE) + b"\2h" + struct.pack(">i", CLOSED_PORT) + b"\0" + _TAG
    yield "100 MB of nodes", HostileResponse(_filled(bytes(5) + bytes(2) + b"\0" + b"\2c" + bytes(4), node), *_CLUSTER)
    yield "100 MB of APIs", HostileResponse(_filled(bytes(2), struct.pack(">hhh", 999, 0, 1) + _TAG), *_API_VERSIONS)
    yield "100 MB of mechanisms", HostileResponse(_mechanisms, SaslHandshakeRequest("PLAIN"), 1)
    topics = b"\2t\1" + _TAG
    yield "100 MB of produced topics", HostileResponse(_filled(bytes(1), topics), *_ASKS["Produce"])
    fetched = bytes(16) + b"\1" + _TAG
    yield "100 MB of fetched topics", HostileResponse(_filled(bytes(11), fetched), *_ASKS["Fetch"])
    yield (
        "as many fetched topics as are decoded",
        HostileResponse(_filled(bytes(11), fetched, 49_000 * len(fetched)), *_ASKS["Fetch"], is_refused=False),
    )
    yield "100 MB of fetched share topics", HostileResponse(_filled(bytes(7) + b"\0" + bytes(4), fetched), *_ASKS["ShareFetch"])


def _mechanisms(connection: socket.socket, header: RequestHeader) -> None:
    count = HUGE // 3
    connection.sendall(struct.pack(">iihi", 10 + 3 * count, header.correlation_id, 0, count))
    for at in range(0, count, len(CHUNK)):
        connection.sendall(b"\0\1x" * min(len(CHUNK), count - at))


HOSTILE_RESPONSES: Final[Mapping[str, HostileResponse]] = {
    "a negative length": HostileResponse(_bytes(lambda _: struct.pack(">i", -5))),
    "a length of two gigabytes": HostileResponse(_bytes(lambda header: struct.pack(">ii", 2**31 - 1, header.correlation_id))),
    "a length without a correlation id": HostileResponse(_bytes(lambda _: struct.pack(">ihh", 2, 1, 1))),
    "a length that ends in the response": HostileResponse(_bytes(lambda header: _frame(header, b"\0\0\0"))),
    "another correlation id": HostileResponse(_bytes(lambda header: struct.pack(">ii", 4, header.correlation_id + 1))),
    "a negative correlation id": HostileResponse(_bytes(lambda _: struct.pack(">ii", 4, -1))),
    "noise": HostileResponse(_bytes(lambda _: b"\xff\xfe\xfd\xfc" * 1_000)),
    "two answers": HostileResponse(_bytes(_twice)),
    "no answer": HostileResponse(_never, is_refused=False),
    "an end in mid-frame": HostileResponse(_mid_frame),
    "half an answer, then a half-open connection": HostileResponse(_half_open),
    "a reset": HostileResponse(_reset),
    "negative node ids": HostileResponse(_brokers((-1, HOST, CLOSED_PORT), (-(2**31), HOST, CLOSED_PORT)), is_refused=False),
    "one node id twice": HostileResponse(_brokers((FIRST_NODE, HOST, CLOSED_PORT), (FIRST_NODE, HOST, CLOSED_PORT + 1)), is_refused=False),
    "the largest node id": HostileResponse(_brokers((2**31 - 1, HOST, CLOSED_PORT)), is_refused=False),
    "ports 0, 70000 and below 0": HostileResponse(_brokers(*((FIRST_NODE, HOST, port) for port in (0, 70_000, -1))), is_refused=False),
    "a host name of 32 KB": HostileResponse(_brokers((FIRST_NODE + 1, "h" * 32_767, CLOSED_PORT))),
    "a host name of 64 KB": HostileResponse(_bytes(_long_host)),
    "a host name with a label of 100 letters": HostileResponse(_brokers((FIRST_NODE + 2, "h" * 100, CLOSED_PORT)), is_refused=False),
    "a host name with a NUL": HostileResponse(_brokers((FIRST_NODE + 3, "a\0b", CLOSED_PORT))),
    "10,000 nodes": HostileResponse(_brokers(*((FIRST_NODE + number, HOST, CLOSED_PORT) for number in range(10_000)))),
    "APIs that do not exist": HostileResponse(
        _versions((999, 0, 9), (-1, 0, 32_767), (32_767, -5, 5), (3, 9, 0)), *_API_VERSIONS, is_refused=False
    ),
    **dict(_elements()),
}


def early(connection: socket.socket) -> None:
    """Send a response before a request has arrived."""
    connection.sendall(struct.pack(">ii", 4, 1))
