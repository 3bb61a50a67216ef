"""Every bound of the broker, with the sum that gives it. Settings may lower some of them; nothing may exceed them.

Memory held for one connection is at most: one partly read frame (socket.request.max.bytes) + two reads (READ_CHUNK_BYTES: what is behind
a request that waits, and the one that makes it so much) + responses not yet taken by the peer (WRITE_HIGH_BYTES, plus the one response
that crossed it, at most fetch.max.bytes).
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

# --- one connection ---------------------------------------------------------------------------------------------------------
READ_CHUNK_BYTES = 256 * KIB
"""The most that one read from a socket delivers (uvloop's buffer)."""

FULL_READ_BYTES = 250_000
FULL_READS_PER_TURN = 4
"""A read of so many bytes took all that uvloop reads at once, and more may be there. libuv reads a socket 32 times before others have their
turn: 8 MiB, 20 ms for each connection that sends so fast. After four such reads a connection waits for the next turn."""

WRITE_HIGH_BYTES = 1 * MIB
"""Above this many unsent response bytes no further request of the connection is started: 16 full socket buffers of 64 KiB."""

WRITE_LOW_BYTES = 256 * KIB
"""Below this the connection goes on: a quarter of the high mark, so that it does not flutter."""

REQUESTS_PER_TURN = 64
"""Requests of one connection that are handled before others have their turn: one read may bring 20,000 of the smallest, a second's work."""

# --- all connections --------------------------------------------------------------------------------------------------------
TOTAL_BUFFERED_BYTES = 512 * MIB
"""Partly read frames and unsent responses of all connections: five of Kafka's largest requests (100 MiB) at once. Begun requests may exceed
it by one largest request."""

LOOK_MS = 500
MOVED_PART = 16
"""While memory is short, a connection is closed that moved less than a sixteenth of what it holds in so long. A request of 100 MiB whose
sender keeps just above that, from one read on, has to be complete after half a minute."""

FREED_PART = 8
"""Then so much of the budget is freed, where slow connections hold it: 64 MiB, so that the next shortage is not at once."""

ACCEPT_BACKLOG = 1024
"""Connections that the kernel queues before we accept them."""

# --- one request ------------------------------------------------------------------------------------------------------------
FETCH_PARTITION_READ_BYTES = 64 * MIB
"""The most one partition adds to a Fetch, whatever the client asks: above fetch.max.bytes' default of 55 MiB."""

FETCHED_AT_ONCE = 500
"""Partitions that a Fetch reads in one turn of the loop: at 10 us each 5 ms."""

DECOMPRESSED_BATCH_BYTES = 64 * MIB
"""What one produced batch may decompress to before it is refused: 64 times max.message.bytes' default. Large batches are checked one after
the other, so this is also the most that all of them hold. Where max.message.bytes is set higher, twice that counts instead."""

BATCH_RECORDS_MAX = 1_000_000
"""Records of one produced batch, or as many as an uncompressed batch of max.message.bytes could hold, if those are more. librdkafka's
batch.num.messages ends here. 2,000,000 empty records that are all alike compress to 1,361 bytes."""

CHECKED_AT_ONCE_BYTES = 1 * MIB
CHECKED_AT_ONCE_RECORDS = 20_000
RECOMPRESSED_AT_ONCE_BYTES = 128 * KIB
"""A produced batch beyond one of these (decompressed size, records, size of what is compressed anew) is checked on a thread: up to them
each step takes 5 ms at most. One thread checks one batch after the other."""

STRUCTURED_REQUEST_BYTES = 8 * MIB
"""The largest request of any API but Produce. A commit of 100,000 offsets is under 5 MiB. How many elements it may hold is the decoder's
to say (REQUEST_ELEMENTS): the smallest take thirty times their bytes."""

SPLIT_REQUEST_BYTES = 2 * KIB
"""A longer request that names many things is handled in parts: a shorter one names 1,000 at most, at 20 us each 20 ms."""

DECODED_AT_ONCE_BYTES = 16 * KIB
PRODUCE_DECODED_AT_ONCE_BYTES = 256 * KIB
"""A longer request is decoded, and its response is encoded, on a thread: 8,000 of the smallest elements take 4 ms. A partition of a Produce
request has six bytes at least, and most have thousands: 43,000 of the smallest take 20 ms."""

SLICE_MS = 5
"""How long large requests are handled before others have their turn."""

LARGE_REQUESTS_BYTES = 16 * MIB
"""Requests that are decoded on a thread at a time: two of the largest, which take thirty times their bytes: 480 MiB."""

LARGE_RESPONSE_BYTES = 100 * MIB
"""The largest response to a request that is handled in parts: what librdkafka takes (receive.message.max.bytes). The settings of 30,000
topics are smaller."""

ENVELOPE_BYTES = 128 * KIB
"""What an Envelope has beside the client's request in it: a principal's type and name, and a client id, of at most 32 KiB each."""

RECORD_ERRORS_MAX = 1000
"""Bad records named in one Produce response; a batch can hold 2^31 of them."""

# --- timers and background work ---------------------------------------------------------------------------------------------
TIMER_CALLBACKS_PER_TURN = 500
"""Expired timers that run before the loop serves sockets again: at 10 us each 5 ms."""

TIMER_RETRY_MS = 10_000
"""When a callback that raised is run again: as often as Kafka looks for transactions that timed out."""

HOUSEKEEPING_SLICE_MS = 5
"""How long one slice of housekeeping may hold the loop before it yields."""

LOGS_AT_ONCE = 100
"""New partitions that are made before the loop serves sockets again: at 0.1 ms each 10 ms."""

ELECTIONS_AT_ONCE = 10
"""Partitions that are led or followed anew before the loop serves sockets again: each notes its leader epoch, at 1 ms each 10 ms."""

COMPACTION_KEYS = 250_000
"""Keys that the cleaner remembers in one pass: about 160 bytes each, so 40 MB while it runs. A log with more of them takes more passes."""

COMPACTION_SLICE_BYTES = 256 * 1024
"""What the cleaner reads of a log before others have their turn: about 2500 records of 100 bytes, so 5 to 10 ms."""

CLEANED_AT_ONCE_RECORDS = 2_500
"""The cleaner opens a batch that has more records, or is compressed, on a thread: 2500 take 5 to 10 ms."""

LOADED_AT_ONCE_RECORDS = 1_000
"""Records of a coordinator's log that are applied before the loop serves sockets again: at 5 us each 5 ms."""

FLUSH_THREADS = 2
"""Threads that wait in fsync: one log syncs on one thread, and two saturate a disk's queue without starving a 2-core host."""

# --- quotas -----------------------------------------------------------------------------------------------------------------
MEASURED_BYTES = 64 * MIB
MEASURED_BYTES_EACH = 1 * KIB
"""What is remembered of all who share a quota of one kind, and of each beside its name, with samples of twelve windows: 65,000 clients with
short names."""

ACCEPT_WAIT_MS = 30_000
"""How long a connection beyond max.connection.creation.rate waits at most, as long as a client for its first answer (request.timeout.ms);
what would wait longer is closed. Else a burst of 100,000 at a rate of ten would shut everybody out for three hours."""

# --- who may do what --------------------------------------------------------------------------------------------------------
KEPT_VERDICTS = 20_000
KEPT_VERDICT_CHARS = 249
"""Answers of the authorizer that are kept until the ACLs change, about names that are no longer than a topic's may be: 26 MiB at most. A
longer name is judged each time that it is named."""

DENIAL_LINES = 100
DENIAL_LINES_WINDOW_MS = 60_000
DENIAL_NAME_CHARS = 300
"""Denials written in a window, of at most 2 KiB: 290 MB a day under constant attack."""

STATE_STILL_MS = 10_000
STATE_STILL_MS_MAX = 600_000
STATE_CALM_MS = 60_000
STATES_MAX = 1_000
"""A state that lasts is told after 10 s, 20 s, 40 s … 10 min: seven lines in its first ten minutes and 144 a day, of at most 1,000 states a
component (their keys are names of nodes and partitions: about 200 KiB). One that ends for less than a minute goes on."""

# --- transactions -----------------------------------------------------------------------------------------------------------
ADD_PARTITIONS_TRIES = 6
ADD_PARTITIONS_RETRY_MS = 20
"""How often, and after which pause, an addition waits for the end of the transaction before: 100 ms in all, as Kafka's
add.partitions.to.txn.retry.backoff.max.ms."""

# --- the log of the process -------------------------------------------------------------------------------------------------
PEER_TEXT_CHARS = 100
"""What a line shows of a text that a peer sent: a client id may have 32 KiB."""

PEER_LINES = 10
PEER_LINES_WINDOW_S = 10
"""Lines of one kind that peers can cause in a window: about ten kinds of at most 1 KiB are 10 KiB/s, 900 MB a day under constant attack."""

# --- transactions -----------------------------------------------------------------------------------------------------------
MARKER_RETRY_MS = 100
"""How long a partition that refused a transaction's marker is left alone; the transaction's producer is told to ask again meanwhile."""

MARKER_RETRY_MS_MAX = 6_400
"""The longest such pause: each is twice the one before."""

QUESTIONS_PER_REQUEST = 1_000
"""Partitions of markers, or transactions to look up, in one request to another broker: 100 KB at most names of topics, far below what any
broker takes."""

TIMED_OUT_TRANSACTIONS_PER_TURN = 100
"""Transactions aborted in one turn of the loop: two records and a few markers each, so about 20 ms."""

# --- memory -----------------------------------------------------------------------------------------------------------------
HEAP_KEPT_BYTES = 32 * 1024 * 1024
"""Freed memory that the allocator keeps: answers of six partitions at 1 MiB each to five consumers at once."""

HEAP_ALLOCATION_BYTES = 8 * 1024 * 1024
"""Larger ones are mapped one by one and go back to the kernel when freed; a partition's read is 1 MiB unless a consumer asks for more."""

# --- stop -------------------------------------------------------------------------------------------------------------------
STOP_DRAIN_MS = 5_000
"""How long a stopping broker waits for requests in flight; a group's rebalance may last longer and is cut."""

WARM_UP_AFTER_MS = 1_000
"""After the start, until handlers are imported that nobody has asked for: whoever waited for the broker has had his first answers."""

LINGER_MS = 500
"""How long a connection that we end stays half open for its peer, whose last answers were sent so recently: far more than a round trip."""

FETCH_SESSION_IDLE_MS = 120_000
"""A fetch session unused for so long gives way to a new one, and one older than this to a bigger one (KIP-227: min eviction time)."""

FETCH_SESSION_PARTITIONS = 1_000_000
"""Partitions remembered by all fetch sessions together: at 300 bytes each 300 MB at the very most; further clients fetch without session.
"""

# --- links to other nodes ---------------------------------------------------------------------------------------------------
NODE_RESPONSE_BYTES = 128 * MIB
"""The largest answer of another node: one batch as large as any that can be produced (100 MiB), and what stands around it."""

LINK_BACKOFF_MS = 50
LINK_BACKOFF_MS_MAX = 1_000
"""The pause before a node is dialled again, doubled with each failure, and the longest: Kafka's reconnect.backoff.ms and its max."""

LATE_TURN_MS = 100
"""A loop that is later than this is busy: five turns of the 20 ms that a turn may take at most."""

CONTROLLER_LOOK_MS = 100
"""How soon the controller is looked for again while it is not known, or the one that was left is still the only one known."""

CONTROLLER_SOCKET_MS = 30_000
"""How long the controller may take for one answer: Kafka's controller.socket.timeout.ms."""

LOG_IN_MS = 10_000
"""How long a log-in may take, all its steps together: thousands of round trips."""

LOG_IN_BYTES = 64 * KIB
"""The largest request of a log-in unless sasl.server.max.receive.size is set: the largest Kerberos ticket has 64 KiB (MaxTokenSize 48,000),
a signed token a few. Kafka's default is 512 KiB, of which 1060 connections fill the budget before any log-in."""

TLS_HANDSHAKE_MS = 60_000
"""Who has not shaken hands after so long is cut off, or after connections.max.idle.ms, where that is shorter."""

TLS_WRITE_BYTES = 256 * 1024
"""What TLS is given to encrypt at a time: larger pieces are cut, so that what is encrypted and cannot be sent is bounded."""

JWKS_BYTES = 512 * 1024
"""The largest set of keys that is read, of jose4j too: a key of 4096 bits and its certificates take a few KiB."""

JWKS_FETCH_MS = 10_000
"""How long the address of such a set may be silent."""

JWKS_MISSED_MS = 60_000
JWKS_MISSED_KIDS = 16
JWKS_KID_CHARS = 1_000
"""A token with an unknown key has the set fetched: for one id once in so long; so many ids are remembered, of so many characters at most
(Kafka's RefreshingHttpsJwks)."""

JWKS_PAUSE_MS = 1_000
"""Between two such fetches, whatever the tokens name."""

# --- the admin port ---------------------------------------------------------------------------------------------------------
ADMIN_CONNECTIONS = 64
"""A browser has six to one host, a collector of metrics or a tool one: ten of each. The next one is told that there are too many."""

ADMIN_PATIENCE_MS = 30_000
"""How long a peer may owe a request or the rest of one, or take no answer: the largest answers, a few MB, pass by any line meanwhile."""

# --- clients' telemetry -----------------------------------------------------------------------------------------------------
TELEMETRY_INSTANCES = 16_384
"""Instances of clients that are known at a time, and of which the last payload is kept: Kafka's own bound."""

TELEMETRY_NAMES_BYTES = 16 * MIB
"""What all of them may call themselves and their software, together: a kilobyte each. Beyond it the longest unheard of are forgotten."""

TELEMETRY_KEPT_BYTES = 32 * MIB
"""What all payloads that are kept hold, as they were compressed: 2 KiB of each of 16,384, or the last 32 of a megabyte."""

TELEMETRY_ANSWER_BYTES = MIB
"""What one answer of the admin port decodes of all clients: tens of them."""

TELEMETRY_ANSWER_PARTS = 100_000
"""Messages and values in them, some 300 ms of a thread: a megabyte of the emptiest messages would take seconds and 170 MB. A client that
tells of a thousand partitions has 30,000."""

TELEMETRY_IDLE_MS = 60_000
"""An instance silent for so long, and for three intervals, is forgotten (Kafka's ClientMetricsManager)."""
