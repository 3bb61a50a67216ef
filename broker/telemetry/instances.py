"""The client instances that this broker knows, and the times at which each may get its subscription and push metrics (KIP-714).

Invariants, as in Kafka:
* An unknown instance id creates an instance, because another broker may have assigned the id.
* When subscriptions change, each instance is created anew at its next request, so that the client can get the new subscription at once.
* A client may get its subscription once in a push interval, push at once after that, and then push once in a push interval. After an error
  about its subscription or compression, it may get the subscription at once. A terminating client may push at once; its next push fails.
* An instance is removed with the connection on which it was created, or after a minute or three intervals without a request,
  whichever is longer.

Source: KAFKA ClientMetricsManager, ClientMetricsInstance.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID, ZERO_ID
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.telemetry.payloads import Payload, Payloads
from ottla.broker.telemetry.subscriptions import ClientSubscription, MetricsSubscriptions, Pusher
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.records.compression import Codec, codec_of, decompress
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.uuids import random_uuid

COMPRESSION_TYPES: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The compression types of metrics that the broker offers to clients, in the order of preference. Uncompressed metrics are accepted,
too."""
_RESERVED: Final = frozenset({ZERO_ID, METADATA_TOPIC_ID})
_ASK_AT_ONCE: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


@dataclass(slots=True)
class TelemetryInstance:
    """One client instance and its metrics subscription. When subscriptions change, a new object replaces this one. Times are Unix times in
    ms, 0 before the first request."""

    pusher: Pusher
    subscription: ClientSubscription
    version: int
    """`MetricsSubscriptions.version` when the instance was created."""
    last_get_ms: int = 0
    last_push_ms: int = 0
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    expiry: TimerHandle | None = None

    @property
    def held_bytes(self) -> int:
        """The memory that the client's own text fields take, estimated as their length in characters; it counts for the memory limit."""
        return sum(len(text or "") for text in self.pusher[1:4])

    def admit_get(self, now_ms: int) -> bool:
        """Return whether the client may get its subscription now: a push interval has passed since it last got it and since its last push.
        If so, record the time."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.subscription.push_interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def admit_push(self, now_ms: int) -> bool:
        """Return whether the client may push now: it got its subscription after its last push, or a push interval has passed since that
        push. If so, record the time."""
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.subscription.push_interval_ms:
            return False
        self.last_push_ms = now_ms
        return True

    def forget_expiry(self) -> None:
        """Cancel the timer that removes the client instance when it expires."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None


@dataclass(slots=True)
class TelemetryCounts:
    """Counts of client metrics requests since the broker's start; rejections are counted by error."""

    pushed: int = 0
    pushed_bytes: int = 0
    """The number of bytes of the pushed metrics, as received (compressed)."""
    refused: dict[ErrorCode, int] = field(default_factory=dict)


class ClientTelemetry:
    """The client instances of one broker and their metrics (ClientMetricsManager). `max_bytes` is telemetry.max.bytes, the limit for pushed
    metrics before and after decompression. The flags select the behaviour of a release of Kafka:

    - With `asks_again`, a client may get its subscription at once after an error about its subscription or compression.
    - With `forgets_closed`, an instance is removed with its connection, and not only when it expires.
    - With `decompresses`, metrics that cannot be decompressed are rejected. Otherwise they are accepted and not stored.
    """

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        random_bytes: Callable[[int], bytes],
        max_bytes: int,
        *,
        asks_again: bool = True,
        forgets_closed: bool = True,
        decompresses: bool = True,
    ) -> None:
        self.subscriptions = MetricsSubscriptions()
        self.payloads = Payloads()
        self.counts = TelemetryCounts()
        self.max_bytes = max_bytes
        self._clock, self._timers, self._random_bytes = clock, timers, random_bytes
        self._ask_at_once = _ASK_AT_ONCE if asks_again else frozenset()
        self._forgets_closed, self._decompresses = forgets_closed, decompresses
        self._instances: OrderedDict[bytes, TelemetryInstance] = OrderedDict()
        self._held_bytes = 0
        self._made_on: dict[int, bytes] = {}
        """The id of the client instance that was created last on each connection, by the connection's number."""

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def get(self, instance_id: bytes, pusher: Pusher) -> tuple[bytes, ClientSubscription]:
        """Return (instance id, subscription) of a client. A client without an id (all zeros) gets a new one.

        Raises Rejected(THROTTLING_QUOTA_EXCEEDED) if the client asks before its push interval is over.
        """
        instance_id = instance_id if instance_id != ZERO_ID else self._new_id()
        instance = self._instance(instance_id, pusher)
        if not instance.admit_get(self._clock.now_ms()) and instance.last_error not in self._ask_at_once:
            raise self._refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return instance_id, instance.subscription

    def push(self, request: PushTelemetryRequest, pusher: Pusher) -> None:
        """Store the metrics that a client pushed. If the request breaks a rule of KIP-714, store the error in the instance's `last_error`
        and raise Rejected."""
        instance_id = bytes(request.client_instance_id)
        if instance_id in _RESERVED:
            raise self._refusal(ErrorCode.INVALID_REQUEST)
        instance = self._instance(instance_id, pusher)
        error = self._problem(instance, request)
        instance.terminating = request.terminating
        if error is ErrorCode.NONE and request.metrics:
            error = self._take(instance_id, instance, pusher, request)
        instance.last_error = error
        if error is not ErrorCode.NONE:
            raise self._refusal(error)

    def disconnected(self, connection: int) -> None:
        """Handle the end of a connection: remove the client instance that was created last on it, if the imitated Kafka release does so
        (`forgets_closed`)."""
        instance_id = self._made_on.pop(connection, None)
        if instance_id is not None and self._forgets_closed:
            self._drop(instance_id)

    # --- the rules ---------------------------------------------------------------------------------------------------------------

    def _problem(self, instance: TelemetryInstance, request: PushTelemetryRequest) -> ErrorCode:
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.admit_push(self._clock.now_ms()) and not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != instance.subscription.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= request.compression_type < len(Codec):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > self.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _take(self, instance_id: bytes, instance: TelemetryInstance, pusher: Pusher, request: PushTelemetryRequest) -> ErrorCode:
        """Store pushed metrics and return NONE. With `decompresses`, return INVALID_RECORD for metrics that cannot be decompressed to at
        most `max_bytes`.

        Kafka responds with INVALID_RECORD to any failure of its ClientTelemetryReceiver plug-in.
        """
        codec, data = codec_of(request.compression_type), bytes(request.metrics)
        try:
            size_bytes = len(decompress(codec, data, self.max_bytes))
        except RecordsError:
            return ErrorCode.INVALID_RECORD if self._decompresses else ErrorCode.NONE
        self.counts.pushed += 1
        self.counts.pushed_bytes += len(data)
        now_ms = self._clock.now_ms()
        self.payloads.keep(Payload(instance_id, pusher, instance.subscription, now_ms, request.terminating, codec, data, size_bytes))
        return ErrorCode.NONE

    def _refusal(self, code: ErrorCode) -> Rejected:
        self.counts.refused[code] = self.counts.refused.get(code, 0) + 1
        return Rejected(code)

        # --- instances ---------------------------------------------------------------------------------------------------------------

    def _new_id(self) -> bytes:
        while (instance_id := random_uuid(self._random_bytes)) in self._instances:
            pass
        return instance_id

    def _instance(self, instance_id: bytes, pusher: Pusher) -> TelemetryInstance:
        """Return the client instance with this id, a new one if there is none, and renew its expiry timer."""
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._make(instance_id, pusher, pusher.connection)
        elif instance.version < self.subscriptions.version:
            instance = self._make(instance_id, instance.pusher, pusher.connection)
        self._instances.move_to_end(instance_id)
        instance.forget_expiry()
        wait_ms = max(limits.TELEMETRY_IDLE_MS, 3 * instance.subscription.push_interval_ms)
        instance.expiry = self._timers.schedule(self._clock.mono_ms() + wait_ms, partial(self._expire, instance_id, pusher.connection))
        return instance

    def _make(self, instance_id: bytes, pusher: Pusher, connection: int) -> TelemetryInstance:
        self._drop(instance_id)
        subscription = self.subscriptions.subscription_of(instance_id, pusher.attributes(instance_id))
        made = self._instances[instance_id] = TelemetryInstance(pusher, subscription, self.subscriptions.version)
        self._held_bytes += made.held_bytes
        self._made_on[connection] = instance_id
        while len(self._instances) > 1 and (
            len(self._instances) > limits.TELEMETRY_INSTANCES or self._held_bytes > limits.TELEMETRY_NAMES_BYTES
        ):
            self._drop(next(iter(self._instances)))
        return made

    def _expire(self, instance_id: bytes, connection: int) -> None:
        self._made_on.pop(connection, None)
        self._drop(instance_id)

    def _drop(self, instance_id: bytes) -> None:
        instance = self._instances.pop(instance_id, None)
        if instance is not None:
            self._held_bytes -= instance.held_bytes
            instance.forget_expiry()
