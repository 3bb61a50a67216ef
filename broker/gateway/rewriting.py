"""The responses that a gateway changes: those with brokers' addresses, and ApiVersions.

Rules:
- Every other response passes as bytes; so does an older version without addresses, and a response in which nothing changes.
- Of Metadata, which names every partition of a cluster, only the part with the brokers is decoded. The rest passes as bytes; it is scanned
  in small steps for the topics' ids.
- ApiVersions offers a rewritten API up to the version that this project knows. All other APIs are offered as the cluster offers them, also
  those that this project does not know. Minimum versions are not changed: Kafka lists Produce from version 0 for old librdkafka (KIP-896).
- GSSAPI is not offered: its tickets are for the host name that the client connects to, which is the gateway's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ottla.broker.core import limits
from ottla.broker.gateway.address_book import Address
from ottla.broker.gateway.topic_ids import FIRST_VERSION, topic_ids
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, decode_response_head, encode_response, encode_response_head, response_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.wire import Buffer


class AddressView(Protocol):
    """Translates brokers' addresses for one client, and learns addresses and topic ids from the cluster's responses."""

    def translate(self, node_id: int, host: str, port: int) -> Address:
        """Store a broker's address in the cluster, and return the gateway's address for that broker. Raises ProtocolError for an impossible
        host name, or if the gateway has no port for one more broker."""

    def learn(self, topic_id: bytes, name: str) -> None:
        """Store a topic's id and name, which a response of the cluster has named."""


T = TypeVar("T")

Steps = Generator[Callable[[], Any] | None, Any, T]
"""A computation in steps, so that other connections have their turns: a generator that returns the result. After a short step it yields
None. For a long step it yields a function: the caller calls it on any thread, and sends its result to the generator."""

GSSAPI: Final = "GSSAPI"
_SIZE: Final = struct.Struct(">i")
_UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_NO_ERROR: Final = ErrorCode.NONE.to_bytes(2, "big")
_ERROR_CODE: Final = slice(4, 6)
"""The position of the error code in the frame of an ApiVersions response of any version: after the correlation id."""


def _metadata(response: Any, view: AddressView) -> Steps[bool]:
    for number, topic in enumerate(response.topics):
        if topic.name and any(topic.topic_id):
            view.learn(topic.topic_id, topic.name)
        if number % limits.GATEWAY_STEPS == 0:
            yield None
    return (yield from _replace_addresses(response.brokers, "node_id", view))


def _brokers(response: Any, view: AddressView) -> Steps[bool]:
    return _replace_addresses(response.brokers, "broker_id", view)


def _coordinators(response: Any, view: AddressView) -> Steps[bool]:
    return _replace_addresses([response, *response.coordinators], "node_id", view)


def _endpoints(response: Any, view: AddressView) -> Steps[bool]:
    return _replace_addresses(response.node_endpoints, "node_id", view)


def _offered(response: Any, _: AddressView) -> Steps[bool]:
    yield from ()
    return offer(response)


def _mechanisms(response: Any, _: AddressView) -> Steps[bool]:
    yield from ()
    before = len(response.mechanisms)
    response.mechanisms = [name for name in response.mechanisms if name != GSSAPI]
    return len(response.mechanisms) != before


_CHANGES: Final[Mapping[int, tuple[int, Callable[[Any, AddressView], Steps[bool]]]]] = {
    ApiKey.PRODUCE: (10, _endpoints),
    ApiKey.FETCH: (16, _endpoints),
    ApiKey.METADATA: (0, _metadata),
    ApiKey.FIND_COORDINATOR: (0, _coordinators),
    ApiKey.SASL_HANDSHAKE: (0, _mechanisms),
    ApiKey.API_VERSIONS: (0, _offered),
    ApiKey.DESCRIBE_CLUSTER: (0, _brokers),
    ApiKey.SHARE_FETCH: (0, _endpoints),
    ApiKey.SHARE_ACKNOWLEDGE: (0, _endpoints),
}
"""The APIs whose responses a gateway changes: the first version with something to change, and the function that changes a decoded response
and returns whether it did."""


def is_rewritten(api_key: int, version: int) -> bool:
    """Return whether the gateway may have to change responses of this API and version."""
    change = _CHANGES.get(api_key)
    return change is not None and version >= change[0]


def is_understood(api_key: int, version: int) -> bool:
    """Return whether this project can decode responses of this API and version."""
    message = response_class(api_key)
    return message.MIN_VERSION <= version <= message.MAX_VERSION


def run_steps(steps: Steps[T]) -> T:
    """Run all steps of a response's rewriting (a `Steps` generator) now, on this thread, and return its result."""
    result = None
    try:
        while True:
            work = steps.send(result)
            result = None if work is None else work()
    except StopIteration as done:
        value: T = done.value
        return value


def decoded(
    api_key: int, version: int, frame: memoryview, view: AddressView, elements: int = limits.GATEWAY_ELEMENTS
) -> Steps[tuple[int, Any, bool]]:
    """Decode a response in steps. Return its version, the decoded response with the gateway's addresses, and whether these changed
    anything. The version is that of the request, except for ApiVersions with UNSUPPORTED_VERSION, which has version 0 (KIP-511). Raises
    ProtocolError for an invalid response, or one whose arrays have more than `elements` elements in total."""
    if api_key == ApiKey.API_VERSIONS and frame[_ERROR_CODE] == _UNSUPPORTED:
        version = 0  # KIP-511
    _, response = yield partial(decode_response, api_key, version, frame, elements)
    changed = is_rewritten(api_key, version) and (yield from _CHANGES[api_key][1](response, view))
    return version, response, changed


def sized(frame: memoryview) -> list[Buffer]:
    """Return a frame with its 4-byte size prefix before it, as two buffers."""
    return [_SIZE.pack(len(frame)), frame]


def rewritten(api_key: int, version: int, frame: memoryview, view: AddressView) -> Steps[list[Buffer]]:
    """Return, in steps, the response to send in place of `frame`, with its size prefix. Raises ProtocolError for an invalid response."""
    if api_key == ApiKey.METADATA:
        return (yield from _metadata_rewritten(version, frame, view))
    steps = _rewritten(api_key, version, frame, view)
    return (yield from steps) if len(frame) > limits.DECODED_AT_ONCE_BYTES else run_steps(steps)


def _rewritten(api_key: int, version: int, frame: memoryview, view: AddressView) -> Steps[list[Buffer]]:
    if not is_understood(api_key, version) and frame[_ERROR_CODE] != _UNSUPPORTED:  # ApiVersions of a newer client
        failed = frame[_ERROR_CODE] != _NO_ERROR
        return sized(frame) if failed else encode_response(api_key, 0, _correlation_id(frame), newer_client_response())
    version, response, changed = yield from decoded(api_key, version, frame, view)
    if not changed:
        return sized(frame)
    again: list[Buffer] = yield partial(encode_response, api_key, version, _correlation_id(frame), response)
    return again


def _metadata_rewritten(version: int, frame: memoryview, view: AddressView) -> Steps[list[Buffer]]:
    response, pos = decode_response_head(ApiKey.METADATA, version, frame, "brokers", limits.GATEWAY_NODES_MAX)
    for known in topic_ids(version, frame, pos) if version >= FIRST_VERSION else ():
        if known is not None:
            view.learn(*known)
        yield None
    if not (yield from _replace_addresses(response.brokers, "node_id", view)):
        return sized(frame)
    return encode_response_head(version, _correlation_id(frame), response, "brokers", frame[pos:])


def _correlation_id(frame: memoryview) -> int:
    return int.from_bytes(frame[:4], "big", signed=True)


def offer(response: ApiVersionsResponse) -> bool:
    """Restrict an ApiVersions response: of each API whose responses the gateway rewrites, keep only the versions that this project also
    knows. Return whether anything changed.
    """
    before = [(api.api_key, api.max_version) for api in response.api_keys]
    response.api_keys = [api for api in response.api_keys if _restricted(api)]
    return before != [(api.api_key, api.max_version) for api in response.api_keys]


def newer_client_response() -> ApiVersionsResponse:
    """Return the UNSUPPORTED_VERSION response to an ApiVersions request whose version this project does not know. Encode it as version 0;
    the client then retries with a version that the response names (KIP-511).
    """
    last = response_class(ApiKey.API_VERSIONS).MAX_VERSION
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKey.API_VERSIONS, 0, last)])


def _restricted(api: ApiVersion) -> bool:
    if api.api_key in _CHANGES:
        api.max_version = min(api.max_version, response_class(api.api_key).MAX_VERSION)
    return api.min_version <= api.max_version


def _replace_addresses(entries: Sequence[Any], id_field: str, view: AddressView) -> Steps[bool]:
    """Replace the address in each of the response's `entries`, whose node id is in the field `id_field`, by the gateway's. Return whether
    anything changed. Raises ProtocolError, before any port is opened, if there are too many brokers.
    """
    steps = _replace_addresses_in_steps(entries, id_field, view)
    return (yield from steps) if len(entries) > limits.GATEWAY_NODES_MAX else run_steps(steps)


def _replace_addresses_in_steps(entries: Sequence[Any], id_field: str, view: AddressView) -> Steps[bool]:
    named, brokers = yield partial(_named, entries, id_field)
    # Sorted by node id, so that new brokers get their ports in this order; each broker once, because 10,000 groups have few coordinators.
    addresses = {broker: view.translate(*broker) for broker in brokers}
    if all(address == broker[1:] for broker, address in addresses.items()):
        return False
    yield partial(_readdress, entries, named, addresses)
    return True


_Named = tuple[int, str, int]
"""A broker as an entry of a response names it: node id, host and port."""


def _named(entries: Sequence[Any], id_field: str) -> tuple[list[_Named], list[_Named]]:
    """Return the broker that each entry names, and all of these brokers once, sorted. Raises ProtocolError if there are too many
    brokers."""
    named = [(getattr(entry, id_field), entry.host, entry.port) for entry in entries]
    brokers = set(named)
    if len(brokers) > limits.GATEWAY_NODES_MAX:
        raise ProtocolError(f"the cluster names more than {limits.GATEWAY_NODES_MAX} brokers")
    return named, sorted(brokers)


def _readdress(entries: Sequence[Any], named: Sequence[_Named], addresses: Mapping[_Named, Address]) -> None:
    for entry, broker in zip(entries, named, strict=True):
        entry.host, entry.port = addresses[broker]
