"""A TCP proxy that drops responses: the broker processes the request, and the client sees its connection close.

Rules:
- The proxy parses only frame sizes, API keys and correlation ids.
- The dropped responses depend on the seed and the order of the requests.
- The proxy drops some responses of an API, never all, so that a client that retries succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections import deque
from dataclasses import dataclass, field

from client_compat.support.brokers import HOST

FRAME_BYTES_MAX = 64 * 1024 * 1024
START_TIMEOUT_S = 10.0
_SIZE = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")


@dataclass(slots=True)
class Losses:
    """Chooses the responses that a proxy drops: those of the API `api_key`, each with probability `share`, and at most `count_max` in
    total. `lost` counts the dropped responses."""

    api_key: int
    share: float
    seed: int = 7
    count_max: int = 1_000
    lost: int = 0
    seen: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def hits(self, api_key: int) -> bool:
        """Decide whether the proxy drops the next response of this API. Count the response in `lost` if so, and return the decision."""
        if api_key != self.api_key:
            return False
        self.seen += 1
        hit = self.lost < self.count_max and self._random.random() < self.share
        self.lost += hit
        return hit


class Proxy:
    """A TCP proxy from `port` to the broker at `broker_port`, which drops the responses that `losses` chooses. It runs in its own thread;
    use it as a context manager."""

    def __init__(self, port: int, broker_port: int, losses: Losses) -> None:
        self.port, self.losses = port, losses
        self._broker_port = broker_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{port}", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(START_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, HOST, self.port)

    async def _end(self) -> None:
        self._server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, self._broker_port)
        except (OSError, asyncio.CancelledError):
            to_client.transport.abort()
            return
        in_flight: deque[int] = deque()
        ways = [
            asyncio.ensure_future(self._requests(from_client, to_broker, in_flight)),
            asyncio.ensure_future(self._answers(from_broker, to_client, in_flight)),
        ]
        # Only `_end` cancels this task, at any `await`; asyncio would log a connection task that ends as cancelled.
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                to_client.transport.abort()
                to_broker.close()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, in_flight: deque[int]) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(source)
                api_key, _, _ = _REQUEST.unpack_from(frame, _SIZE.size)
                if not _without_answer(frame, api_key):
                    in_flight.append(api_key)
                sink.write(frame)
                await sink.drain()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, in_flight: deque[int]) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(source)
                if self.losses.hits(in_flight.popleft()):
                    return
                sink.write(frame)
                await sink.drain()


async def _frame(source: asyncio.StreamReader) -> bytes:
    """Return the next frame, including its 4-byte size prefix. Raises IncompleteReadError at the end of the stream, OSError if the size is
    invalid."""
    head = await source.readexactly(_SIZE.size)
    (size,) = _SIZE.unpack(head)
    if not 0 <= size <= FRAME_BYTES_MAX:
        raise OSError(f"a frame of {size} bytes")
    return head + await source.readexactly(size)


def _without_answer(frame: bytes, api_key: int) -> bool:
    """Return whether the request is a Produce with acks=0, which has no response."""
    if api_key != 0:
        return False
    _, version, _ = _REQUEST.unpack_from(frame, _SIZE.size)
    at = _SIZE.size + _REQUEST.size
    (client_id,) = struct.unpack_from(">h", frame, at)
    at += 2 + max(0, client_id)
    if version >= 9:  # flexible version: the header's tagged fields, then a compact nullable string; each is one byte if empty
        at += 1
        length, shift = 0, 0
        while True:
            byte = frame[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        at += max(0, length - 1)
    else:
        (transactional_id,) = struct.unpack_from(">h", frame, at)
        at += 2 + max(0, transactional_id)
    (acks,) = struct.unpack_from(">h", frame, at)
    return bool(acks == 0)
