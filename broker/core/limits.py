"""Every bound of the broker, with the calculation behind it. Settings may lower some bounds; a setting raises a bound only where its text
says so.

The memory of one connection is at most the sum of:
* one partly read frame (socket.request.max.bytes);
* two reads of READ_CHUNK_BYTES: the data that has arrived behind a pending request, and the read after which reading was paused;
* the responses that the peer has not read yet (WRITE_HIGH_BYTES, plus the response that exceeded it, of at most fetch.max.bytes).
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

# --- one connection ---------------------------------------------------------------------------------------------------------
READ_CHUNK_BYTES = 256 * KIB
"""The most that one read of a socket returns (uvloop's buffer)."""

FULL_READ_BYTES = 250_000
FULL_READS_PER_TURN = 4
"""A read of at least FULL_READ_BYTES filled uvloop's buffer, so more data may be waiting. libuv reads one socket up to 32 times
before it serves others: 8 MiB, or 20 ms for each fast sender. After FULL_READS_PER_TURN such reads a connection pauses until the
loop's next turn.
"""

WRITE_HIGH_BYTES = 1 * MIB
"""Above this many unsent response bytes, no further request of the connection is started: 16 full socket buffers of 64 KiB."""

WRITE_LOW_BYTES = 256 * KIB
"""Below this many unsent response bytes, the connection resumes: a quarter of WRITE_HIGH_BYTES, so that it does not switch back
and forth.
"""

REQUESTS_PER_TURN = 64
"""Requests of one connection that are handled in one turn of the loop. One read may contain 20,000 minimal requests, which is a
second's work.
"""

# --- all connections --------------------------------------------------------------------------------------------------------
TOTAL_BUFFERED_BYTES = 512 * MIB
"""Memory of all partly read frames and unsent responses: five of Kafka's largest requests (100 MiB) at once. Requests that were
already begun may exceed it by one largest request.
"""

LOOK_MS = 500
MOVED_PART = 16
"""While memory is short, a connection is closed if within LOOK_MS it moved less than 1/MOVED_PART of the bytes that it holds. A 100
MiB request whose sender stays just above that rate is complete within half a minute.
"""

FREED_PART = 8
"""When memory is short, 1/FREED_PART of the budget (64 MiB) is freed from slow connections, so that the next shortage does not follow
at once.
"""

ACCEPT_BACKLOG = 1024
"""Connections that the kernel queues until the broker accepts them."""

# --- one request ------------------------------------------------------------------------------------------------------------
FETCH_PARTITION_READ_BYTES = 64 * MIB
"""The most data of one partition in a Fetch response, whatever the client asks for: above the 55 MiB default of fetch.max.bytes."""

ABORTED_AT_ONCE = 10_000
"""Aborted transactions for which one read of a partition is not shortened: 10 ms at 1 us each. Reads of 64 MiB can have 450,000, those of
1 MiB (max.partition.fetch.bytes) 7,000.
"""

FETCHED_AT_ONCE = 500
"""Partitions that one Fetch reads in one turn of the loop: 5 ms at 10 us each."""

DECOMPRESSED_BATCH_BYTES = 64 * MIB
"""The largest decompressed size of a produced batch: 64 times the default of max.message.bytes. Large batches are checked one at a
time, so this is also the most that all of them hold. If max.message.bytes is set higher, the limit is twice its value.
"""

BATCH_RECORDS_MAX = 1_000_000
"""The most records in one produced batch, or as many as an uncompressed batch of max.message.bytes can hold, if that is more. librdkafka's
batch.num.messages has the same maximum. Without a limit, 2,000,000 identical empty records would compress to 1,361 bytes."""

CHECKED_AT_ONCE_BYTES = 1 * MIB
CHECKED_AT_ONCE_RECORDS = 20_000
RECOMPRESSED_AT_ONCE_BYTES = 128 * KIB
"""A produced batch that exceeds one of these limits (decompressed bytes, records, bytes to compress again) is checked on a thread;
below them each step takes at most 5 ms. One thread checks all such batches one after the other.
"""

STRUCTURED_REQUEST_BYTES = 8 * MIB
"""The largest request of any API but Produce. An OffsetCommit of 100,000 offsets is below 5 MiB. The number of elements is limited
by the decoder (REQUEST_ELEMENTS), because the smallest elements take thirty times their bytes in memory.
"""

SPLIT_REQUEST_BYTES = 2 * KIB
"""A request with many elements that is longer than this is handled in parts. A shorter one has at most 1,000 elements: 20 ms at
20 us each.
"""

LISTED_AT_ONCE = 100
"""Groups, transactions, ACLs, quotas or delegation tokens that a request for all of them looks at before other connections may be served:
1.5 ms at 15 us each.
"""

DECODED_AT_ONCE_BYTES = 16 * KIB
PRODUCE_DECODED_AT_ONCE_BYTES = 256 * KIB
"""A longer request is decoded, and its response is encoded, on a thread: 8,000 minimal elements take 4 ms. For Produce the limit is
higher, because a partition takes at least six bytes and usually thousands; 43,000 minimal partitions take 20 ms.
"""

SLICE_MS = 5
"""The longest time slice of a large request before other connections are served."""

LARGE_REQUESTS_BYTES = 16 * MIB
"""Total size of requests that are decoded on threads at the same time: two of the largest. Decoded, they take thirty times as
much: 480 MiB.
"""

LARGE_RESPONSE_BYTES = 100 * MIB
"""The largest response to a request that is handled in parts: librdkafka's default of receive.message.max.bytes. The settings of
30,000 topics are smaller.
"""

ENVELOPE_BYTES = 128 * KIB
"""The size of an Envelope besides the client's request: a principal's type and name, and a client id, of at most 32 KiB each."""

EXPRESSIONS_KEPT = 64
EXPRESSION_BYTES = 256 * KIB
EXPRESSION_CLASSES = 50
EXPRESSION_NAMED_GROUPS = 10
"""Compiled regular expressions that are cached (RE2's binding keeps 128 itself: 32 MiB), the size of one, its Unicode classes (`\\pL`) and
named groups. An expression below these limits takes at most 25 ms to compile, and 25 ms to match with a name of 249 characters. A list of
10 KB of names is below them, and takes microseconds to match.
"""

EXPRESSION_INSTRUCTIONS_AT_ONCE = 10_000
"""The texts matched with an expression in one turn of the loop have at most this product of their number and the expression's instructions,
each of which may be executed for each character: 15 ms with names of 249 characters. An expression usually has tens of instructions.
"""

RECORD_ERRORS_MAX = 1000
"""The most record errors in one Produce response; a batch can hold 2^31 records."""

# --- timers and background work ---------------------------------------------------------------------------------------------
TIMER_CALLBACKS_PER_TURN = 500
"""Expired timers that run in one turn of the loop: 5 ms at 10 us each."""

TIMER_RETRY_MS = 10_000
"""The pause before a failed timer callback is retried: Kafka's interval of checks for timed-out transactions."""

BACKGROUND_RETRY_MS = 100
BACKGROUND_RETRY_MS_MAX = 10_000
"""The first and the longest pause before failed background work is retried; the pause doubles with each failure."""

LOGS_AT_ONCE = 100
"""New partitions that are created in one turn of the loop: 10 ms at 0.1 ms each."""

ELECTIONS_AT_ONCE = 10
"""Partitions whose leader changes in one turn of the loop: each writes its leader epoch, 10 ms at 1 ms each."""

COMPACTION_KEYS = 250_000
"""Keys that the cleaner remembers in one pass: 40 MB at about 160 bytes each. A log with more keys takes several passes."""

COMPACTION_SLICE_BYTES = 256 * 1024
"""Bytes of a log that the cleaner reads before it yields: about 2500 records of 100 bytes, or 5 to 10 ms."""

CLEANED_AT_ONCE_RECORDS = 2_500
"""A batch that is compressed or has more records is cleaned on a thread: 2500 records take 5 to 10 ms."""

LOADED_AT_ONCE_RECORDS = 1_000
"""Records of a coordinator's log that are replayed in one turn of the loop: 5 ms at 5 us each."""

FLUSH_THREADS = 2
"""Threads that run fsync, each for one log at a time. Two saturate a disk's queue and leave a 2-core host responsive."""

SUBSCRIBED_TOPICS = 100_000
"""Topics in the subscriptions of a classic group's members, which are decoded in one turn of the loop after each rebalance: 20 ms at 0.2 us
each. A member's metadata of 8 MB can list 4,000,000.
"""

PENDING_MEMBERS = 2_000
"""Member ids of a classic group whose clients have not joined with them yet: 64 MiB at the 32 KiB of the longest client id. Clients join
with their id at once, but an id that a client does not use is kept for its session timeout, of up to 30 minutes.
"""

STREAMS_TASKS = 10_000
"""Active tasks of a streams group, which are assigned in one turn of the loop: 0.2 s at 20 us each, 0.5 s with two standby replicas.
Applications have dozens.
"""

STREAMS_TOPIC_FAILURES = 1_000
"""Internal topics of streams groups whose failed creation is remembered, as in Kafka: 1.3 MB at 1,000 characters of reason."""

# --- quotas -----------------------------------------------------------------------------------------------------------------
MEASURED_BYTES = 64 * MIB
MEASURED_BYTES_EACH = 1 * KIB
"""Memory for the usage of all clients that share a quota of one kind, and for each client besides its name, with samples of twelve
windows: enough for 65,000 clients with short names.
"""

ACCEPT_WAIT_MS = 30_000
"""The longest time that a connection above max.connection.creation.rate waits: a client's usual timeout of its first request
(request.timeout.ms). A connection that would wait longer is closed, because a burst of 100,000 at a rate of ten would otherwise
block all clients for three hours.
"""

# --- delegation tokens --------------------------------------------------------------------------------------------------------
TOKENS_OF_REQUESTER = 10_000
TOKEN_RENEWERS_CHARS = 16 * KIB
"""Delegation tokens that one principal created, and the names of a token's renewers: 160 MB in all. A token lasts for seven days by
default, so that 10,000 are one a minute. A token usually has one or two renewers.
"""

TOKEN_HMACS = 50_000
"""HMACs of delegation tokens that are cached, because a token is found by its HMAC: 15 MB at 300 bytes each."""

# --- authorization ------------------------------------------------------------------------------------------------------------
KEPT_VERDICTS = 20_000
KEPT_VERDICT_CHARS = 249
"""Size of the authorizer's cache of decisions, and the longest name in it: 249 characters, as for a topic; 26 MiB at most. Decisions
on longer names are not cached. The cache is cleared when ACLs change.
"""

DENIAL_LINES = 100
DENIAL_LINES_WINDOW_MS = 60_000
DENIAL_NAME_CHARS = 300
"""Lines of the audit log for denied requests in one window, of at most 2 KiB each: 290 MB a day under constant attack."""

STATE_STILL_MS = 10_000
STATE_STILL_MS_MAX = 600_000
STATE_CALM_MS = 60_000
STATES_MAX = 1_000
"""A lasting state is logged again after 10 s, 20 s, 40 s … 10 min: seven lines in the first ten minutes and then 144 a day. Each
component remembers at most 1,000 states (their keys are names of nodes and partitions: about 200 KiB). A state that resumes
within a minute counts as the same state.
"""

# --- transactions -----------------------------------------------------------------------------------------------------------
ADD_PARTITIONS_TRIES = 6
ADD_PARTITIONS_RETRY_MS = 20
"""Attempts to add a partition while the previous transaction is still being completed, and the pause between them: 100 ms in all, as
Kafka's add.partitions.to.txn.retry.backoff.max.ms.
"""

# --- the log of the process -------------------------------------------------------------------------------------------------
PEER_TEXT_CHARS = 100
"""Characters of a peer's text in a log line; a client id may have 32 KiB."""

PEER_LINES = 10
PEER_LINES_WINDOW_S = 10
"""Lines of one kind that peers can cause in a window: about ten kinds of at most 1 KiB are 10 KiB/s, or 900 MB a day under
constant attack.
"""

# --- transactions -----------------------------------------------------------------------------------------------------------
MARKER_RETRY_MS = 100
"""The pause before a transaction marker is sent again to a partition that refused it. Meanwhile the producer gets a retriable error."""

MARKER_RETRY_MS_MAX = 6_400
"""The longest such pause; the pause doubles with each attempt."""

OPERATIONS_PER_REQUEST = 1_000
"""Partitions of markers, or transactions to look up, in one request to another broker. Topic names are at most 100 KB of it, far
below any broker's limit.
"""

TIMED_OUT_TRANSACTIONS_PER_TURN = 100
"""Timed-out transactions that are aborted in one turn of the loop: two records and a few markers each, about 20 ms in all."""

# --- memory -----------------------------------------------------------------------------------------------------------------
HEAP_KEPT_BYTES = 32 * 1024 * 1024
"""Freed memory that the allocator keeps: the responses to five consumers that read six partitions at 1 MiB each."""

HEAP_ALLOCATION_BYTES = 8 * 1024 * 1024
"""Larger allocations are mapped separately and returned to the kernel when freed. A partition's read is 1 MiB unless a consumer
asks for more.
"""

# --- stop -------------------------------------------------------------------------------------------------------------------
STOP_DRAIN_MS = 5_000
"""The longest time that a stopping broker waits for requests in flight. Requests that wait for a rebalance may take longer and
are cut off.
"""

WARM_UP_AFTER_MS = 1_000
"""The time after the start at which unused handlers are imported. Clients that waited for the broker have their first responses by then."""

LINGER_MS = 500
"""How long a connection that the broker closes stays half open, so that the peer receives the last responses: far more than a
round trip.
"""

FETCH_SESSION_IDLE_MS = 120_000
"""A fetch session unused for so long may be evicted by a new one; a session older than this may be evicted by a larger one (KIP-227)."""

FETCH_SESSION_PARTITIONS = 1_000_000
"""Partitions of all fetch sessions: 300 MB at 300 bytes each. Further clients fetch without a session."""

SHARE_SESSION_BYTES_MAX = 256 * MIB
SHARE_SESSION_BYTES = 600
SHARE_SESSION_PARTITION_BYTES = 300
"""The memory that all share sessions together may use, and the memory counted for one session (without its group's name) and for each of
its partitions. A client may name any partitions, so their number is limited: to 890,000, as in fetch sessions. Kafka limits only the number
of sessions.
"""

# --- connections to other nodes -----------------------------------------------------------------------------------------------
NODE_RESPONSE_BYTES = 128 * MIB
"""The largest response of another node: one batch of the largest size that can be produced (100 MiB) and its surroundings."""

LINK_BACKOFF_MS = 50
LINK_BACKOFF_MS_MAX = 1_000
"""The first and the longest pause before a connection to a node is tried again; it doubles with each failure (Kafka's
reconnect.backoff.ms and reconnect.backoff.max.ms).
"""

LATE_TURN_MS = 100
"""A loop that runs later than this is overloaded: five turns of the 20 ms that one turn may take."""

CONTROLLER_DISCOVERY_MS = 100
"""The pause between attempts to find the controller, while it is unknown or the only known one is the one that was just left."""

CONTROLLER_SOCKET_MS = 30_000
"""The longest time that the controller may take for one response: Kafka's controller.socket.timeout.ms."""

LOG_IN_MS = 10_000
"""The longest time of an authentication with all its steps: enough for thousands of round trips."""

LOG_IN_BYTES = 64 * KIB
"""The largest request before authentication, unless sasl.server.max.receive.size is set. The largest Kerberos ticket has 64 KiB
(MaxTokenSize 48,000), a signed token a few. With Kafka's default of 512 KiB, 1060 unauthenticated connections would fill the
memory budget.
"""

TLS_HANDSHAKE_MS = 60_000
"""The longest time of a TLS handshake; connections.max.idle.ms applies instead if it is shorter."""

TLS_WRITE_BYTES = 256 * 1024
"""The most plaintext that is encrypted at a time, so that the ciphertext that cannot be sent yet is bounded. Larger buffers are split."""

JWKS_BYTES = 512 * 1024
"""The largest JWKS document that is read, as in jose4j: a 4096-bit key with its certificates takes a few KiB."""

JWKS_FETCH_MS = 10_000
"""The longest time without data from a JWKS endpoint."""

JWKS_MISSED_MS = 60_000
JWKS_MISSED_KIDS = 16
JWKS_KID_CHARS = 1_000
"""A token with an unknown key id triggers a fetch of the JWKS, at most once in JWKS_MISSED_MS for each id. Up to JWKS_MISSED_KIDS
ids of at most JWKS_KID_CHARS characters are remembered (Kafka's RefreshingHttpsJwks).
"""

JWKS_PAUSE_MS = 1_000
"""The minimum pause between two such fetches, whatever key ids the tokens name."""

# --- the admin port ---------------------------------------------------------------------------------------------------------
ADMIN_CONNECTIONS = 64
"""A browser opens six connections to one host, a metrics collector or a tool one: enough for ten of each. Further ones get an error."""

ADMIN_PATIENCE_MS = 30_000
"""The longest time without a complete request, or without reading a response. The largest responses, a few MB, pass any network
within it.
"""

WIRE_LOG_LEASE_MS = 10_000
"""How long requests are logged for the console after a reader's last request. A page reads every second."""

WIRE_LOG_READERS = 16
"""Filters by which requests are logged for the console at the same time, each of one page or more. A further one replaces the one that was
read longest ago: its page is there again with its next request.
"""

WIRE_LOG_BYTES = 4 * MIB
"""The lines that the console keeps: 2,000 to 4,000 requests with few partitions, and 40 of the largest."""

WIRE_LOG_MESSAGE_CHARS = 8 * KIB
"""Characters of the decoded fields of one request or response, after which lists are cut: 50 to 100 partitions, in less than a millisecond.
"""

WIRE_LOG_MEASURED = 4
"""Long responses whose sizes are computed at the same time, on threads: one with 10,000 partitions takes 20 ms. Requests with further ones
get no line in the console, so that messages which wait do not take memory.
"""

WIRE_LOG_WAITING = 16
"""Long requests and responses whose lines in a file wait for their thread: 10,000 partitions take 20 ms, 0.4 s as JSON, and 5 MB each.
Further ones get shorter lines at once.
"""

WIRE_LOG_WAITING_BYTES = 4 * MIB
"""The same for their encoded bytes, except for a broker's own responses, which have not been encoded. Decoded, the smallest elements take
15 times as many: 60 MiB. One message may have more.
"""

WIRE_LOG_NAMES = 100
"""Topics, groups and transactional ids of a kept line by which a later filter finds it."""

WIRE_LOG_RESPONSE_BYTES = MIB
"""Lines in one response of the console. A page that reads every second follows 1,000 requests a second."""

# --- clients' telemetry -----------------------------------------------------------------------------------------------------
TELEMETRY_INSTANCES = 16_384
"""Client instances whose last payload is kept: Kafka's own bound."""

TELEMETRY_NAMES_BYTES = 16 * MIB
"""Total size of the instances' names and software names: a kilobyte each. Above it, the instances that were silent longest are removed."""

TELEMETRY_KEPT_BYTES = 32 * MIB
"""Total size of the payloads that are kept, compressed: 2 KiB for each of 16,384 instances, or the last 32 payloads of a megabyte."""

TELEMETRY_RESPONSE_BYTES = MIB
"""Bytes of clients' payloads that one response of the admin port decodes: those of tens of clients."""

TELEMETRY_RESPONSE_PARTS = 100_000
"""Messages and values that one response of the admin port decodes, about 300 ms on a thread. Without this limit, a megabyte of empty
messages would take seconds and 170 MB. A client that reports a thousand partitions has 30,000.
"""

TELEMETRY_IDLE_MS = 60_000
"""An instance that is silent for this long, and for three push intervals, is removed (Kafka's ClientMetricsManager)."""

# --- the gateway ------------------------------------------------------------------------------------------------------------------
GATEWAY_NODES_MAX = 1_000
"""Brokers of the cluster behind a gateway, each with a port: ten times the largest clusters in use."""

GATEWAY_ELEMENTS = 50_000
"""Elements in all arrays of a response that a gateway decodes to change its addresses: a Fetch of 25,000 partitions, each in its own topic,
takes a thread 0.1 s. Without a limit, 100 MB of the smallest elements took 28 s and 3 GB.
"""

GATEWAY_LOGGED_ELEMENTS = 250_000
"""The same for responses that are decoded for fault rules or observers: Metadata of 35,000 partitions with three replicas."""

GATEWAY_HOST_CHARS = 255
"""The longest host name of a broker: DNS allows 253 characters."""

GATEWAY_WRITE_HIGH_BYTES = 256 * KIB
GATEWAY_WRITE_LOW_BYTES = 64 * KIB
"""Above the first number of bytes that one side of a connection has not taken, the other side is not read; below the second it is read
again. One connection holds at most this and a read of READ_CHUNK_BYTES in each direction: 1 MiB, besides collected responses.
"""

GATEWAY_IN_FLIGHT = 1_000
"""Requests of one connection that wait for responses, above which its client is not read. Clients have 5 by default, and librdkafka
1,000,000 at most, which brokers do not handle at the same time either.
"""

GATEWAY_HEAD_BYTES = 128 * KIB
"""The most bytes before `acks` in a Produce request: a client id and a transactional id of at most 32 KiB each."""

GATEWAY_DIAL_MS = 10_000
"""The longest time of a connection attempt to one broker with its TLS handshake: Kafka's socket.connection.setup.timeout.ms."""

GATEWAY_STILL_MS = 10_000
"""How long a connection that ends may be without progress. A peer that does not read its last bytes would otherwise keep it for ever."""

GATEWAY_STEPS = 250
"""Topics and partitions of a Metadata response that a gateway looks at before it may serve other connections: less than a millisecond."""

GATEWAY_REQUEST_BYTES = 100 * MIB
"""The largest request that is decoded, while fault rules or observers are loaded: Kafka's socket.request.max.bytes."""

GATEWAY_TOPICS_MAX = 100_000
"""Topics whose ids are remembered, so that rules can name topics: 35 MB at most, with names of 249 characters."""
