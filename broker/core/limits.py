"""Every bound of the broker, with the calculation behind it. Some settings lower a bound; a setting raises a bound only if the bound's text
says so. "One turn of the event loop" is one callback, during which no other connection is served.

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
"""The maximum number of bytes that one read of a socket returns (the size of uvloop's buffer)."""

FULL_READ_BYTES = 250_000
"""A socket read of this many bytes or more has filled uvloop's buffer (READ_CHUNK_BYTES), so more data may be waiting in the socket."""
FULL_READS_PER_TURN = 4
"""The number of full reads (FULL_READ_BYTES) after which a connection pauses until the next turn of the event loop. Without this limit
libuv reads one socket up to 32 times before it serves others: 8 MiB, or 20 ms for each fast sender.
"""

WRITE_HIGH_BYTES = 1 * MIB
"""While a connection has more unsent response bytes than this, none of its further requests is started. The value is 16 full socket buffers
of 64 KiB.
"""

WRITE_LOW_BYTES = 256 * KIB
"""A connection that was paused because of WRITE_HIGH_BYTES resumes when it has fewer unsent response bytes than this. The value is a
quarter of WRITE_HIGH_BYTES, so that the connection does not switch back and forth.
"""

REQUESTS_PER_TURN = 64
"""The maximum number of requests of one connection that are handled in one turn of the event loop. One read of the socket may contain
20,000 minimal requests, which take a second.
"""

# --- all connections --------------------------------------------------------------------------------------------------------
TOTAL_BUFFERED_BYTES = 512 * MIB
"""The memory budget for the partly read frames and unsent responses of all connections: five of Kafka's largest requests (100 MiB) at once.
Requests that were already begun may exceed it by the size of one largest request. The setting queued.max.request.bytes replaces it.
"""

SLOW_CHECK_MS = 500
"""The interval in ms of the checks for slow connections, which the broker may close. Checks run only while the memory budget
TOTAL_BUFFERED_BYTES is used up."""
MOVED_PART = 16
"""A connection counts as slow if the number of bytes that it holds in memory changed by less than 1/MOVED_PART within SLOW_CHECK_MS. Slow
connections may be closed while the memory budget TOTAL_BUFFERED_BYTES is used up. At that rate, a 100 MiB request is complete within half a
minute.
"""

FREED_PART = 8
"""When the memory budget TOTAL_BUFFERED_BYTES is used up, slow connections are closed until 1/FREED_PART of the budget (64 MiB) is free, so
that it is not used up again at once.
"""

ACCEPT_BACKLOG = 1024
"""The number of new connections that the kernel queues until a gateway (`ottla gateway`, a proxy in front of a cluster) accepts them. A
broker has the setting socket.listen.backlog.size instead."""

# --- one request ------------------------------------------------------------------------------------------------------------
FETCH_PARTITION_READ_BYTES = 64 * MIB
"""The most bytes of one partition's records in a Fetch response, even if the client asks for more. The limit is above the default of
fetch.max.bytes, 55 MiB."""

ABORTED_AT_ONCE = 10_000
"""The most aborted transactions in one read of a partition: 10 ms at 1 us each. If a Fetch would return more of them, fewer records are
read. A read of 64 MiB can have 450,000 of them, one of 1 MiB (max.partition.fetch.bytes) 7,000.
"""

FETCHED_AT_ONCE = 500
"""The most partitions that one Fetch or ShareFetch reads in one turn of the event loop: 5 ms at 10 us each."""

DECOMPRESSED_BATCH_BYTES = 64 * MIB
"""The largest decompressed size of a produced batch: 64 times the default of max.message.bytes, or twice max.message.bytes if that is more.
Large batches are checked one at a time, so all checks together take at most this much memory.
"""

BATCH_RECORDS_MAX = 1_000_000
"""The most records in one produced batch; librdkafka's batch.num.messages has the same maximum. If an uncompressed batch of
max.message.bytes can hold more records, that number applies instead. Without a limit, a batch of 1,361 compressed bytes could hold
2,000,000 identical empty records."""

CHECKED_AT_ONCE_BYTES = 1 * MIB
"""A produced batch with more bytes than this, before or after decompression, or with more than 4,096 compressed blocks
(`compression.BLOCK_BYTES_MIN`), is checked on a thread; checking a smaller one takes at most 5 ms. One thread checks all such batches one
after the other."""
CHECKED_AT_ONCE_RECORDS = 20_000
"""A produced batch with more records than this is checked on a thread; reading the records of a smaller one takes at most 5 ms."""
SEARCHED_AT_ONCE_BATCHES = 1_000
"""The most batch headers that a search for a timestamp reads in one turn of the event loop: 2 ms at 2 us each. Without a limit, one record
with a late timestamp that was deleted makes each search read all headers of its segment, up to 15,000,000 in 1 GiB.
"""
RECOMPRESSED_AT_ONCE_BYTES = 128 * KIB
"""A produced batch is checked and compressed again on a thread if it has more decompressed bytes than this and its compression differs from
the topic's compression.type. Compressing fewer bytes takes at most 5 ms.
"""

STRUCTURED_REQUEST_BYTES = 8 * MIB
"""The largest request of any API but Produce. For comparison, an OffsetCommit of 100,000 offsets has less than 5 MiB. The decoder also
limits the number of elements (REQUEST_ELEMENTS), because the smallest elements take thirty times their bytes in memory.
"""

SPLIT_REQUEST_BYTES = 2 * KIB
"""A request of more bytes than this may be handled in parts, between which other connections are served. A shorter one has at most 1,000
elements: 20 ms at 20 us each.
"""

LISTED_AT_ONCE = 100
"""The number of groups, transactions, ACLs, quotas or delegation tokens that a listing request reads in one turn of the event loop: 1.5 ms
at 15 us each.
"""

DECODED_AT_ONCE_BYTES = 16 * KIB
"""A request of more bytes than this, of any API but Produce, is decoded on a thread, and its response is encoded on a thread. A shorter one
has at most 8,000 minimal elements, which take 4 ms."""
PRODUCE_DECODED_AT_ONCE_BYTES = 256 * KIB
"""A Produce request of more bytes than this is decoded on a thread, and its response is encoded on a thread. The limit is higher than that
of other requests (DECODED_AT_ONCE_BYTES), because a partition takes at least six bytes and usually thousands; 43,000 minimal partitions
take 20 ms.
"""

SLICE_MS = 5
"""The longest time that one large request keeps the event loop before other connections are served."""
SLICE_NS = SLICE_MS * 1_000_000
"""SLICE_MS in nanoseconds, the unit of `Clock.spent_ns`."""

LARGE_REQUESTS_BYTES = 16 * MIB
"""The maximum total size of the requests that are decoded on threads at the same time: two requests of the maximum size
(STRUCTURED_REQUEST_BYTES). A decoded request takes up to thirty times its bytes, so they take at most 480 MiB.
"""
DECODED_ELEMENT_BYTES = 1 * KIB
"""The bytes of memory that count for each array element of a large request whose handler waits. A partition of a waiting Fetch takes 910
bytes.
"""

LARGE_RESPONSE_BYTES = 100 * MIB
"""The maximum size of the response to a request that is handled in parts. If the response would be larger, the connection is closed. The
value is librdkafka's default of receive.message.max.bytes. A DescribeConfigs response with the settings of 30,000 topics is smaller.
"""

ENVELOPE_BYTES = 128 * KIB
"""The most bytes of an Envelope besides the client's request in it: a principal's type and name, and a client id, of at most 32 KiB each.
"""

EXPRESSIONS_KEPT = 64
"""The number of compiled regular expressions that the broker caches. RE2's Python binding caches 128 more, which take up to 32 MiB (128
times EXPRESSION_BYTES)."""
EXPRESSION_BYTES = 256 * KIB
"""The maximum memory of one compiled regular expression (RE2's max_mem). An expression within this limit takes at most 25 ms to compile,
and 25 ms to match with a name of 249 characters. An expression that lists 10 KB of names is within it, and is matched in microseconds."""
EXPRESSION_CLASSES = 50
"""The most Unicode classes (`\\pL`) in one regular expression, because RE2 parses each into a table of hundreds of ranges."""
EXPRESSION_NAMED_GROUPS = 10
"""The most named groups in one regular expression, because RE2 always captures them, which makes matching slow."""

EXPRESSION_INSTRUCTIONS_AT_ONCE = 10_000
"""Limits how many names a regular expression is matched with in one turn of the event loop: the number of names times the number of
instructions of the compiled expression (usually tens) is at most this. It takes up to 15 ms with names of 249 characters, because each
instruction may run for each character.
"""

RECORD_ERRORS_MAX = 1000
"""The most entries of recordErrors in one Produce response; a batch can hold 2^31 records, each with an error."""

# --- timers and background work ---------------------------------------------------------------------------------------------
TIMER_CALLBACKS_PER_TURN = 500
"""The most expired timers that run in one turn of the event loop: 5 ms at 10 us each."""

TIMER_RETRY_MS = 10_000
"""The pause before a failed timer callback is retried. The value is the interval at which Kafka checks for timed-out transactions."""

BACKGROUND_RETRY_MS = 100
"""The pause before failed background work (such as a broken periodic task) is retried the first time; the pause doubles with each
failure."""
BACKGROUND_RETRY_MS_MAX = 10_000
"""The longest pause before failed background work is retried."""

LOGS_AT_ONCE = 100
"""The most new partitions whose logs are created in one turn of the event loop: 10 ms at 0.1 ms each."""

ELECTIONS_AT_ONCE = 10
"""The most partitions whose new leader is applied in one turn of the event loop. For each, its leader epoch is written to disk: 10 ms at 1
ms each."""

COMPACTION_KEYS = 250_000
"""The most keys that the log cleaner remembers in one pass: 40 MB at about 160 bytes each. A log with more keys takes several passes."""

COMPACTION_SLICE_BYTES = 256 * 1024
"""The bytes of a log that the log cleaner reads before other work runs: about 2500 records of 100 bytes, or 5 to 10 ms."""

CLEANED_AT_ONCE_RECORDS = 2_500
"""The log cleaner handles a batch on a thread if it is compressed or has more records than this: 2500 records take 5 to 10 ms."""

LOADED_AT_ONCE_STEPS = 500
"""The number of records and batches of a coordinator's log that are replayed in one turn of the event loop when the log is loaded: 4 ms at
8 us each."""

FLUSH_THREADS = 2
"""The number of threads that run fsync, each for one log at a time. Two saturate a disk's queue and leave a 2-core host responsive."""

SUBSCRIBED_TOPICS = 100_000
"""The most topics in the subscriptions of all members of a classic group. The subscriptions are decoded in one turn of the event loop after
each rebalance: 20 ms at 0.2 us for each topic. If there are more, the broker does not know the group's topics. (The metadata of one member,
of at most 8 MB, could list 4,000,000.)
"""

PENDING_MEMBERS = 2_000
"""The most member ids that a classic group has given to clients which have not joined with them yet: 64 MiB at the 32 KiB of the longest
client id. A client normally joins with its id at once; an unused id is kept for the session timeout, of up to 30 minutes.
"""

STREAMS_TASKS = 10_000
"""The maximum number of active tasks of a streams group, because all tasks are assigned in one turn of the event loop: 0.2 s at 20 us each,
0.5 s with two standby replicas. Real applications have dozens of tasks.
"""

STREAMS_TOPIC_FAILURES = 1_000
"""The most internal topics of streams groups for which the broker remembers that their creation failed, and why; Kafka has the same limit.
With reasons of 1,000 characters they take 1.3 MB."""

# --- quotas -----------------------------------------------------------------------------------------------------------------
MEASURED_BYTES = 64 * MIB
"""The maximum size in bytes of a cache of clients' measured usage; each kind of quota has such a cache. It has room for 65,000 clients with
short names. When it is full, the clients that were silent longest are removed."""
MEASURED_BYTES_EACH = 1 * KIB
"""The bytes that one client counts for, besides its name, in the cache of clients' measured usage (MEASURED_BYTES): the samples of twelve
quota windows."""

ACCEPT_WAIT_MS = 30_000
"""The longest time that a new connection is delayed because of max.connection.creation.rate. It is the usual timeout of a client's first
request (request.timeout.ms). A connection that would be delayed longer is closed; otherwise a burst of 100,000 connections at a rate of ten
a second would block all clients for three hours.
"""

# --- delegation tokens --------------------------------------------------------------------------------------------------------
TOKENS_OF_REQUESTER = 10_000
"""The most existing delegation tokens that one principal can have created. A token lasts for seven days by default, so a principal can
create one token a minute. The renewers of 10,000 tokens (TOKEN_RENEWERS_CHARS) take at most 160 MB."""
TOKEN_RENEWERS_CHARS = 16 * KIB
"""The most characters in the names of all renewers of one delegation token. A token usually has one or two renewers."""

TOKEN_HMACS = 50_000
"""The number of computed HMACs of delegation tokens that are cached, because a token is looked up by its HMAC: 15 MB at 300 bytes each."""

# --- authorization ------------------------------------------------------------------------------------------------------------
CACHED_DECISIONS = 20_000
"""The number of authorization decisions that the authorizer caches: 26 MiB at most. The cache is cleared when ACLs change."""
CACHED_DECISION_CHARS = 249
"""The longest resource name whose authorization decision is cached: 249 characters, as for a topic."""

DENIAL_LINES = 100
"""The most denied requests that are written to the audit log in one window (DENIAL_LINES_WINDOW_MS), in lines of at most 2 KiB: 290 MB a
day under constant attack."""
DENIAL_LINES_WINDOW_MS = 60_000
"""The length of the window in which at most DENIAL_LINES denied requests are written to the audit log."""
DENIAL_NAME_CHARS = 300
"""The maximum length, in characters, of a principal's or resource's name in a line of the audit log. A longer name is cut."""

STATE_STILL_MS = 10_000
"""The pause before a lasting state, such as an unreachable controller, is logged again. The pause then doubles up to STATE_STILL_MS_MAX:
this makes seven lines in the first ten minutes and then 144 a day."""
STATE_STILL_MS_MAX = 600_000
"""The longest pause between two log lines about the same lasting state."""
STATE_CALM_MS = 60_000
"""A lasting state that begins again within this time after its end counts as the same state, so that a state which begins and ends
repeatedly causes no more log lines than one that lasts."""
STATES_MAX = 1_000
"""The most lasting states that each component remembers for its log lines; the keys are names of nodes and partitions: about 200 KiB."""

# --- transactions -----------------------------------------------------------------------------------------------------------
ADD_PARTITIONS_TRIES = 6
"""The number of attempts to add a partition to a transaction while the previous transaction is still being completed."""
ADD_PARTITIONS_RETRY_MS = 20
"""The pause between two attempts to add a partition to a transaction. All pauses between the attempts (ADD_PARTITIONS_TRIES) take 100 ms,
the default of Kafka's add.partitions.to.txn.retry.backoff.max.ms.
"""

# --- the log of the process -------------------------------------------------------------------------------------------------
PEER_TEXT_CHARS = 100
"""The maximum length, in characters, of a text from a client or another peer in a log line. A client id may have 32 KiB."""

PEER_LINES = 10
"""The most log lines of one kind that clients and other peers can cause in a window (PEER_LINES_WINDOW_S). There are about ten kinds of
lines, each of at most 1 KiB, so a constant attack causes 10 KiB/s, or 900 MB a day."""
PEER_LINES_WINDOW_S = 10
"""The length, in seconds, of the window in which peers can cause at most PEER_LINES log lines of each kind."""

# --- transactions -----------------------------------------------------------------------------------------------------------
MARKER_RETRY_MS = 100
"""The first pause before a transaction marker is sent again to a partition that rejected it. Meanwhile the producer gets a retriable error.
The pause doubles with each attempt."""

MARKER_RETRY_MS_MAX = 6_400
"""The longest pause before a transaction marker is sent again to a partition that rejected it."""

OPERATIONS_PER_REQUEST = 1_000
"""The most operations in one request to another broker; an operation is, for example, a transaction marker for a partition, or a
transaction to verify. The topic names in 1,000 operations take at most 250 KB, far below any broker's limit.
"""

MARKERS_AT_ONCE = 250
"""The most markers of one transaction that are sent in one turn of the event loop: 5 ms at 20 us each."""

MARKERS_PAUSE_MS = 10
"""The pause before more markers of a large transaction are sent, so that other work gets half of the time. All large transactions share the
turns."""

TIMED_OUT_TRANSACTIONS_PER_TURN = 100
"""The most timed-out transactions that are aborted in one turn of the event loop: two records and a few markers each, about 20 ms in all.
Ten markers count as one transaction.
"""

# --- memory -----------------------------------------------------------------------------------------------------------------
HEAP_KEPT_BYTES = 32 * 1024 * 1024
"""How much freed memory the C allocator keeps instead of returning it to the kernel. This is enough for the responses to five consumers
that each read 1 MiB from six partitions."""

HEAP_ALLOCATION_BYTES = 8 * 1024 * 1024
"""The C allocator maps an allocation of more bytes than this separately, and returns it to the kernel when it is freed. A partition's read
is 1 MiB unless a consumer asks for more.
"""

# --- stop -------------------------------------------------------------------------------------------------------------------
STOP_DRAIN_MS = 5_000
"""The longest time that a stopping broker waits for requests in flight. A request that still waits then, for example for a rebalance, gets
no response.
"""

WARM_UP_AFTER_MS = 1_000
"""The time from the broker's start to its warm-up, which imports the handlers of the requests that no client has sent yet. By then, clients
that waited for the broker have received their first responses."""

REPEATED_SIGNAL_MS = 500
"""A signal that follows the first one within this time is the same request to stop: programs that run others (timeout, npm) pass a signal
on that the whole process group has received already. A later one is a user's second Ctrl-C."""

LINGER_MS = 500
"""How long a connection that the broker closes stays half open, so that the peer receives the last responses: far more than a round trip.
"""

FETCH_SESSION_IDLE_MS = 120_000
"""The time in ms after which a fetch session may be evicted (KIP-227). Any new session may evict a session that was not used for longer
than this. A new session with more partitions may also evict a session that is in use but is older than this."""

FETCH_SESSION_PARTITIONS = 1_000_000
"""The most partitions of all fetch sessions together: 300 MB at 300 bytes each. At this number no further session is created, and the
clients fetch without a session."""

SHARE_SESSION_BYTES_MAX = 256 * MIB
"""The maximum estimated memory of all share sessions together (KIP-932). It also limits their partitions, to 890,000, because a client may
name any number of partitions in its session. Kafka limits only the number of sessions."""
SHARE_SESSION_BYTES = 600
"""The bytes that count for one share session towards SHARE_SESSION_BYTES_MAX, besides its group's name and its partitions."""
SHARE_SESSION_PARTITION_BYTES = 300
"""The bytes that count for one partition of a share session towards SHARE_SESSION_BYTES_MAX."""

# --- connections to other nodes -----------------------------------------------------------------------------------------------
NODE_RESPONSE_BYTES = 128 * MIB
"""The largest response that this node accepts from another node: one batch of the largest size that can be produced (100 MiB), and the
fields around the batch."""

NODE_RESPONSE_ELEMENTS = 500_000
"""The most elements in all arrays of a response of another node: CreateTopics of 10,000 topics, Kafka's maximum, with 40 settings each. A
Fetch of 100,000 partitions, each in its own topic, has 200,000. Without a limit, 128 MiB of the smallest elements took a minute and 6 GB.
"""

LINK_BACKOFF_MS = 50
"""The first pause before a connection to another node is tried again (Kafka's reconnect.backoff.ms). The pause doubles with each
failure."""
LINK_BACKOFF_MS_MAX = 1_000
"""The longest pause before a connection to another node is tried again (Kafka's reconnect.backoff.max.ms)."""

LATE_TURN_MS = 100
"""A timer that runs more than this after its deadline shows that the event loop is overloaded, because one turn of the loop should take at
most 20 ms. If the timer is the timeout of a response, the timeout is then extended, because the response may have arrived without having
been read.
"""

CONTROLLER_DISCOVERY_MS = 100
"""The pause before a node looks for the active controller again, if it knows no controller, or the connection to the only known controller
was just closed."""

CONTROLLER_SOCKET_MS = 30_000
"""The longest time that the controller may take for one response: the default of Kafka's controller.socket.timeout.ms."""

LOG_IN_MS = 10_000
"""The longest time of a client's authentication, with all its steps: enough for thousands of round trips."""

LOG_IN_BYTES = 64 * KIB
"""The largest request before authentication, unless sasl.server.max.receive.size is set. The largest Kerberos ticket has 64 KiB
(MaxTokenSize 48,000), a signed token a few KiB. With Kafka's default of 512 KiB, 1060 unauthenticated connections would fill the memory
budget (TOTAL_BUFFERED_BYTES).
"""

TLS_HANDSHAKE_MS = 60_000
"""The longest time of a TLS handshake; connections.max.idle.ms applies instead if it is shorter."""

TLS_WRITE_BYTES = 256 * 1024
"""The most plaintext that is encrypted at a time; longer data is split. This bounds the ciphertext in memory that cannot be sent yet."""

STORE_BYTES = MIB
"""The largest keystore or truststore that is read; a client may name its file (IncrementalAlterConfigs). Java's own truststore has 200 KiB,
a PEM file with the 150 certificates of browsers 300 KiB."""
PEM_BLOCKS = 1_000
"""The most keys and certificates in one PEM file or setting: six times those of browsers."""
KEY_ITERATIONS = 1_000_000
"""The most iterations with which the password of an encrypted PEM key is hashed: 0.15 s. OpenSSL and keytool use 2,048 to 10,000."""

JWKS_BYTES = 512 * 1024
"""The largest JWKS document (the public keys of an OAuth provider) that is read, as in jose4j: a 4096-bit key with its certificates takes a
few KiB."""

JWKS_FETCH_MS = 10_000
"""The longest time for which the download of a JWKS document (the public keys of an OAuth provider) may receive no data."""

JWKS_MISSED_MS = 60_000
"""A token with an unknown key id triggers a fetch of the JWKS document, for each id at most once in this time (Kafka's
RefreshingHttpsJwks)."""
JWKS_MISSED_KIDS = 16
"""The number of unknown key ids that are remembered, so that not every token with such an id triggers a fetch of the JWKS document."""
JWKS_KID_CHARS = 1_000
"""A token whose unknown key id is longer than this triggers no fetch of the JWKS document."""

JWKS_PAUSE_MS = 1_000
"""The minimum pause between two fetches of the JWKS document for unknown key ids, because clients can invent any number of ids."""

# --- the admin port ---------------------------------------------------------------------------------------------------------
ADMIN_CONNECTIONS = 64
"""The most connections to the admin port; a further connection gets an error. A browser opens six connections to a host, a metrics
collector or a command-line tool one, so ten of each fit."""

ADMIN_PATIENCE_MS = 30_000
"""The longest time that a connection to the admin port may take to send a complete request, or to read a response. The largest responses,
of a few MB, pass any network within it.
"""

WIRE_LOG_LEASE_MS = 10_000
"""The admin console logs requests while one of its pages reads the log lines, and for this time after the last read. A page reads them
every second."""

WIRE_LOG_READERS = 16
"""The maximum number of filters with which the admin console logs requests at the same time. Pages with the same filter share one. A
further filter replaces the filter whose lines were read longest ago; that filter is added again when its page reads the next time.
"""

WIRE_LOG_BYTES = 4 * MIB
"""The maximum memory of the request log lines that the admin console keeps: 2,000 to 4,000 requests with few partitions, or 40 of the
largest."""

WIRE_LOG_MESSAGE_CHARS = 8 * KIB
"""The maximum length, in characters, of the decoded fields of a request or response in a line of the request log. Longer lists are cut: 50
to 100 partitions fit, and take less than a millisecond.
"""

WIRE_LOG_MEASURED = 4
"""The maximum number of long responses whose encoded sizes are computed on threads at the same time, for the admin console's request log.
The size of a response with 10,000 partitions takes 20 ms. Further long responses are not logged, so that they do not queue up in memory.
"""

WIRE_LOG_WAITING = 16
"""The maximum number of long messages that wait for the thread that writes their lines to a request log file. A message with 10,000
partitions takes 20 ms, or 0.4 s and 5 MB as JSON. While so many wait, a further long message gets a shorter line, which is written at once.
"""

WIRE_LOG_WAITING_BYTES = 4 * MIB
"""The maximum encoded size of the long messages that wait for the thread that writes their lines to a request log file; a single message
may be larger. A broker's own responses do not count, because they are not encoded yet. Decoded messages take up to 15 times as much: 60
MiB.
"""

WIRE_LOG_NAMES = 100
"""The maximum number of transactional ids, groups and partitions that the admin console stores with one line of its request log, so that a
later filter finds the line by them."""

WIRE_LOG_RESPONSE_BYTES = MIB
"""The maximum size of the request log lines in one response of the admin console. A page that reads every second can follow 1,000 requests
a second."""

# --- clients' telemetry -----------------------------------------------------------------------------------------------------
TELEMETRY_INSTANCES = 16_384
"""The most client instances whose last telemetry payload (KIP-714) is kept: Kafka's own bound."""

TELEMETRY_NAMES_BYTES = 16 * MIB
"""The maximum total size of the client ids and software names of the client instances that push telemetry: a kilobyte for each instance.
When they take more, the instances that were silent longest are removed."""

TELEMETRY_KEPT_BYTES = 32 * MIB
"""The maximum total size of the compressed telemetry payloads that the broker stores: 2 KiB for each of 16,384 client instances, or the
last 32 payloads of a megabyte."""

TELEMETRY_RESPONSE_BYTES = MIB
"""The maximum size of the clients' telemetry payloads that one response of the admin port decodes: the payloads of tens of clients."""

TELEMETRY_RESPONSE_PARTS = 100_000
"""The maximum number of messages and values in the telemetry payloads that one response of the admin port decodes: about 300 ms on a
thread. Without this limit, a megabyte of empty messages would take seconds and 170 MB. A client that reports a thousand partitions has
30,000.
"""

TELEMETRY_IDLE_MS = 60_000
"""A client instance that pushes no telemetry for this long, and for three of its push intervals, is removed (Kafka's ClientMetricsManager).
"""

# --- the gateway ------------------------------------------------------------------------------------------------------------------
GATEWAY_NODES_MAX = 1_000
"""The maximum number of brokers in a cluster behind a gateway (a proxy), which opens a port for each: ten times the largest clusters in
use."""

GATEWAY_ELEMENTS = 50_000
"""A gateway (a proxy in front of a cluster) decodes responses to replace the brokers' addresses. This is the maximum number of elements in
all arrays of such a response: a Fetch of 25,000 partitions, each in its own topic, takes a thread 0.1 s. Without a limit, 100 MB of the
smallest elements took 28 s and 3 GB.
"""

GATEWAY_LOGGED_ELEMENTS = 250_000
"""The maximum number of elements in all arrays of a response that a gateway (a proxy) decodes because rules inject faults into it, or
because it is logged: Metadata of 35,000 partitions with three replicas."""

GATEWAY_HOST_CHARS = 255
"""The maximum length of a broker's host name in characters, for a gateway (a proxy): DNS allows 253."""

GATEWAY_WRITE_HIGH_BYTES = 256 * KIB
"""A gateway (a proxy) forwards bytes between a client and the cluster. While more than this many bytes for one side are unsent, the gateway
does not read the other side. One connection holds at most this and a read of READ_CHUNK_BYTES in each direction: 1 MiB. Responses that the
gateway changes need more.
"""
GATEWAY_WRITE_LOW_BYTES = 64 * KIB
"""A gateway (a proxy) stops reading one side of a connection while too many bytes for the other side are unsent (GATEWAY_WRITE_HIGH_BYTES).
It reads again when fewer bytes than this are unsent."""

GATEWAY_IN_FLIGHT = 1_000
"""The maximum number of requests of one client connection through a gateway (a proxy) that wait for the cluster's responses. At this number
the gateway stops reading from the client. A client usually has 5 requests in flight. librdkafka allows 1,000,000, but no broker handles so
many at the same time either.
"""

GATEWAY_FRAMES_PER_TURN = 500
"""The maximum number of requests and responses that one connection through a gateway (a proxy) passes in one turn of the event loop, or for
one read: 1 ms. One read of the socket may contain 15,000 requests. A frame that is decoded counts as one more for each 8 of its bytes,
because decoding takes 0.1 us a byte and at least 10 us.
"""

GATEWAY_HEAD_BYTES = 128 * KIB
"""The maximum number of bytes before the field `acks` in a Produce request: a client id and a transactional id of at most 32 KiB each. A
gateway (a proxy) reads no further to find the field, which it needs because no response follows a request with acks=0."""

GATEWAY_DIAL_MS = 10_000
"""The maximum time in which a gateway (a proxy) connects to a broker, with the TLS handshake: Kafka's socket.connection.setup.timeout.ms.
"""

GATEWAY_STILL_MS = 10_000
"""When a gateway (a proxy) closes a connection, it sends the remaining bytes first. If the peer accepts none of them for this long, the
gateway aborts the connection, because a peer that does not read would keep it open for ever."""

GATEWAY_STEPS = 250
"""The maximum number of topics and partitions of a Metadata response that a gateway (a proxy) processes in one turn of the event loop: less
than a millisecond."""

GATEWAY_REQUEST_BYTES = 100 * MIB
"""The maximum size of a request that a gateway (a proxy) decodes: Kafka's socket.request.max.bytes. It decodes requests only while rules
for fault injection are loaded, or requests are logged."""

GATEWAY_TOPICS_MAX = 100_000
"""The maximum number of topics whose ids and names a gateway (a proxy) remembers, because fault injection rules name topics and some
requests have only their ids: 35 MB at most, with names of 249 characters."""
