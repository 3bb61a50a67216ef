"""Deliberate differences: each has a row in docs/deviations.md and is expected only in the responses that its patterns match."""

from __future__ import annotations

import re
from dataclasses import dataclass

from client_compat.differential.normalise import Plain
from client_compat.differential.probe import Seen


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A deliberate difference between Ottla's and Apache Kafka's responses: its title in docs/deviations.md, and patterns (full matches)
    for API, label, field path and both values."""

    why: str
    api: str
    path: str
    label: str = ".*"
    kafka: str = ".*"
    ours: str = ".*"

    def explains(self, seen: Seen, path: str, kafka: Plain, ours: Plain) -> bool:
        """Return whether this is the deliberate difference at `path` of the response `seen`, where Apache Kafka has the value `kafka` and
        Ottla the value `ours`."""
        pairs = ((self.api, seen.api), (self.label, seen.label), (self.path, path), (self.kafka, str(kafka)), (self.ours, str(ours)))
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


TEXT = "An error code without a text"
ACCIDENT = "A value that means nothing fails by accident"
FEWER = "Features that Ottla lacks"
NOTHING = "A full fetch of nothing opens a session"
FIXED = "Settings that can change while the broker runs"
TWICE = "Items that a request names twice are answered twice"
LISTED = "A streams member that lists its tasks gets its assignment only if that has changed"
OTHER = "the reference node's own settings"

OWN_SETTINGS = "|".join(
    re.escape(name)
    for name in (
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "group.initial.rebalance.delay.ms",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "offsets.topic.replication.factor",
        "process.roles",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    )
)
"""Settings whose values differ because each broker is configured differently or has a different default."""

ASSIGNED_AGAIN = KnownDifference(
    LISTED,
    "STREAMS_GROUP_HEARTBEAT",
    "(active|standby|warmup)_tasks",
    label="owning all|owning some|an earlier epoch|a still owns all",
    kafka="None",
    ours=r"\[.*\]",
)

KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(OTHER, "DESCRIBE_CONFIGS", r".*\[consumer\.assignor\.offload\.enable\]\.synonyms.*"),
    KnownDifference(
        ACCIDENT, "WRITE_SHARE_GROUP_STATE", r".*\.error_(code|message)", label="a range backwards", kafka="-1 .*|Unable to .*"
    ),
    KnownDifference(TEXT, ".*", r".*error_message", kafka="None|", ours="<text>"),
    KnownDifference(TEXT, "SHARE_FETCH", r".*error_message", kafka="None"),
    KnownDifference(ACCIDENT, "FETCH", ".*", label=r"isolation 2|-1 of .*|negative total"),
    KnownDifference(ACCIDENT, "PRODUCE", ".*", label="no records", kafka="<timed out>"),
    KnownDifference(
        ACCIDENT,
        "PRODUCE|METADATA|CREATE_PARTITIONS|DESCRIBE_TOPIC_PARTITIONS|INCREMENTAL_ALTER_CONFIGS|DESCRIBE_SHARE_GROUP_OFFSETS",
        ".*error_code",
        kafka="-1 .*",
    ),
    KnownDifference(ACCIDENT, "PRODUCE", r".*log_start_offset", label="gzip that is none", kafka="0", ours="-1"),
    KnownDifference(ACCIDENT, "METADATA", ".*", label="neither"),
    KnownDifference(ACCIDENT, "DESCRIBE_TOPIC_PARTITIONS", ".*", label="empty name"),
    KnownDifference(FEWER, "DESCRIBE_CONFIGS", r"results\[[^\]]*\]\.configs\[[^\]]+\]", ours="None"),
    KnownDifference(FEWER, "API_VERSIONS", r"(supported|finalized)_features\[(kraft|eligible\.leader\.replicas)\.version\]", ours="None"),
    KnownDifference(OTHER, "API_VERSIONS", "finalized_features_epoch"),
    KnownDifference(TWICE, "CONSUMER_GROUP_DESCRIBE", r"groups\[(0|1|cg-adm)\]", label=r"describe \['cg-adm', 'cg-adm'\].*"),
    KnownDifference(TWICE, "DESCRIBE_CONFIGS", r"results\[(0|1|conf)\]", label="a resource twice"),
    ASSIGNED_AGAIN,
    KnownDifference(NOTHING, "FETCH", "session_id", label="session of nothing"),
    KnownDifference(FIXED, "DESCRIBE_CONFIGS", r".*\[(listeners|listener\.security\.protocol\.map)\]\.read_only"),
    KnownDifference(OTHER, "DESCRIBE_CONFIGS", rf".*configs\[({OWN_SETTINGS})\](\.(value|config_source|synonyms.*))?"),
    KnownDifference(OTHER, "DESCRIBE_CONFIGS", r".*configs\[(cluster\.id|transaction\.version|client\.telemetry\.enable)\]", kafka="None"),
    KnownDifference(OTHER, "DESCRIBE_QUORUM", r".*(leader_epoch|high_watermark|log_end_offset)"),
    KnownDifference(OTHER, "DESCRIBE_QUORUM", r"nodes.*listeners\[(CONTROLLER|PLAINTEXT)\]"),
)

DESCRIBED = "A release describes settings with its own types, synonyms and texts, and other settings as alterable"
NOT_YET = "While a group has no coordinator yet, a release before 4.0 answers TxnOffsetCommit with NOT_COORDINATOR"
UNBOUNDED = "An older release accepts compressed client metrics of any decompressed size"
REPEATED = "In a release before 4.4, a write of share state that a leader repeats after a later one moves the start offset back"
HIDDEN = "A release before 3.6 shows the internal settings of tiered storage of a new topic"
UNCHECKED = "A release before 3.7 creates any number of partitions in one request"
QUOTAS = "A release before 3.5 stores quotas that are 0, negative or too large"
LOST = "A release before 3.9 can lose a group's error in OffsetFetch 1"
OF_GROUP = "In 3.4 an error of the whole group becomes UNSUPPORTED_VERSION in LeaveGroup 0 to 2"
NO_PORT = "In 3.7 a metrics subscription compares the client's source port with its address"
STRICTER = "A release before 4.2 stores lists with empty or equal items"
NEWER = "Records of groups are the release's"
NAMED = "4.0 rejects named groups `(?<name>…)` in regular expressions of consumer groups"
NOT_CHECKED = "While a group has no coordinator yet, 4.0 answers an invalid ConsumerGroupHeartbeat with NOT_COORDINATOR"
WORDED = "A release before 4.2 words some errors differently"
REMOVED = "A release before 4.0 offers versions and levels that 4.0 removed"
KNOWN_OF_OLDER: tuple[KnownDifference, ...] = (
    *KNOWN,
    KnownDifference(DESCRIBED, "DESCRIBE_CONFIGS", r".*\.(config_type|documentation|read_only|synonyms.*)"),
    KnownDifference(DESCRIBED, "(INCREMENTAL_ALTER|DESCRIBE)_CONFIGS", ".*", label=r"remote\.log\.reader\.threads=11.*"),
    KnownDifference(DESCRIBED, "DESCRIBE_CONFIGS", r".*configs\[group\.consumer\.assignors\]\.value", kafka="org\\.apache.*"),
    KnownDifference(DESCRIBED, "UNREGISTER_BROKER", "error_message", kafka="None|"),
    KnownDifference(TWICE, "LIST_OFFSETS", r"topics\[[^\]]*\]\.partitions\[[^\]]*\].*", label="a partition twice"),
    KnownDifference(NOT_YET, "TXN_OFFSET_COMMIT", ".*error_code", label="commit offsets", kafka="16 .*", ours="15 .*"),
    KnownDifference(ACCIDENT, "OFFSET_FETCH", ".*", label="fetch of no groups", kafka="<timed out>"),
    KnownDifference(ACCIDENT, "FIND_COORDINATOR", ".*error_code", label=".* of kind 2", kafka="15 .*"),
    KnownDifference(ACCIDENT, "SHARE_(FETCH|ACKNOWLEDGE)", "error_code", label=".*: no (group|member)", kafka="-1 .*|123 .*", ours="42 .*"),
    KnownDifference(DESCRIBED, "DESCRIBE_CONFIGS", r".*configs\[metric\.reporters\]\.value", kafka=""),
    KnownDifference(HIDDEN, "CREATE_TOPICS", r".*configs\[(local\.retention\.(bytes|ms)|remote\.storage\.enable)\]", ours="None"),
    KnownDifference(HIDDEN, "CREATE_TOPICS", r"topics\[configured\]\..*", label="config: (local|remote)", ours="40 .*|-1|0+|None"),
    KnownDifference(UNCHECKED, "CREATE_TOPICS", r"topics\[counts\]\..*", label="100000 partitions, 1 replicas", ours="44 .*|-1|0+|None"),
    KnownDifference(UNCHECKED, "CREATE_PARTITIONS", r".*error_code", label="far too many", kafka="0 .*", ours="44 .*"),
    KnownDifference(
        QUOTAS, "ALTER_CLIENT_QUOTAS", r".*error_(code|message)", label="(nothing|less|no INT), (tried|done)", kafka="0 .*|None"
    ),
    KnownDifference(QUOTAS, "ALTER_CLIENT_QUOTAS", r".*error_message", label="(a fraction|no LONG), .*", kafka=".* must be a Long value"),
    KnownDifference(QUOTAS, "DESCRIBE_CLIENT_QUOTAS", r"entries\[.*'entity_name': 'u'.*\]", ours="None"),
    KnownDifference(QUOTAS, "DESCRIBE_CLIENT_QUOTAS", r"entries\[.*\]\.values\[connection_creation_rate\]\.value", kafka=r"2147483648\.0"),
    KnownDifference(OF_GROUP, "LEAVE_GROUP", "error_code", kafka="35 .*", ours="(16|24) .*"),
    KnownDifference(LOST, "OFFSET_FETCH", r"topics\[early\]", label="fetch", kafka="None"),
    KnownDifference(ACCIDENT, "PRODUCE", r".*log_start_offset", label="no records", kafka="0", ours="-1"),
    KnownDifference(ACCIDENT, "PRODUCE", "", label="no records", kafka="<closed>"),
    KnownDifference(NO_PORT, "GET_TELEMETRY_SUBSCRIPTIONS", r"subscription_id|requested_metrics\[0\]", label="of any port.*"),
    KnownDifference(ACCIDENT, "FETCH", r"node_endpoints.*", label="as a replica", ours="None"),
    KnownDifference(UNBOUNDED, "PUSH_TELEMETRY", "error_code", label=r"\w+ of more than there may be.*", kafka="0 NONE"),
    KnownDifference(
        REPEATED,
        "READ_SHARE_GROUP_STATE(_SUMMARY)?",
        r".*\.start_offset",
        label=r"start backwards: (state|summary)",
        kafka="5",
        ours="10",
    ),
    KnownDifference(NEWER, "FETCH", r"\[\d+\]", label=r"a consumer group.*|a group (that|whose) .*"),
    KnownDifference(NAMED, "CONSUMER_GROUP_HEARTBEAT", ".*", label=r"expression '\(\?<n>x\)'"),
    KnownDifference(NOT_CHECKED, "CONSUMER_GROUP_HEARTBEAT", "error_code", label="beat of no group", kafka="16 .*", ours="42 .*"),
    KnownDifference(WORDED, "UPDATE_FEATURES", "error_message", label="older metadata, of type .*", kafka=".* Invalid metadata.version .*"),
    KnownDifference(
        STRICTER,
        "INCREMENTAL_ALTER_CONFIGS",
        r".*\.error_(code|message)",
        label="an empty one among them|.*=(zone,|compact,delete,compact)",
    ),
    KnownDifference(STRICTER, "DESCRIBE_CONFIGS", r".*configs\[metrics\]\.value", kafka="a,,b|a,a"),
    KnownDifference(STRICTER, "DESCRIBE_CONFIGS", r".*configs\[cleanup\.policy\]\.value", kafka="compact,compact"),
    KnownDifference(REMOVED, "UPDATE_FEATURES", ".*error_message", kafka=".* versions 1-.*", ours=".* versions 7-.*"),
    KnownDifference(REMOVED, "API_VERSIONS", r"api_keys\[\d+\]\.min_version", kafka="0"),
    KnownDifference(REMOVED, "API_VERSIONS", r"api_keys\[[4-7]\]", ours="None"),
    KnownDifference(REMOVED, "API_VERSIONS", r"supported_features\[metadata\.version\]\.min_version", kafka="1"),
)
"""The deliberate differences between Ottla with `--like RELEASE` and Apache Kafka of that release."""

UNCHECKED = "A release with ZooKeeper creates any number of partitions in one request"
WORDS = "A release with ZooKeeper words its errors in its own way"
QUOTAS = "A release with ZooKeeper stores quotas of any value"
LATER = "A broker with ZooKeeper applies changes after it has confirmed them"
LAST = "A release before 3.2 takes the last of several values of a setting"
FORMAT = "A release before 4.0 obeys `message.format.version`"
UNCHECKED_MEMBER = "2.8 ignores an instance id that no member of the group has"
MEMBERLESS = "3.0 to 3.2 let only members commit offsets of an empty group if the request has a member id"
STRANGER = "A broker with ZooKeeper serves fetches of nodes that are no replicas"
_LEFT = "twice-named|both-ways"
"""A pattern for topics that one DeleteTopics request names twice. Ottla does not delete them."""
_KIND_7 = "(every partition|none|one|no such), of kind 7"
KNOWN_OF_ZOOKEEPER: tuple[KnownDifference, ...] = (
    *KNOWN_OF_OLDER,
    KnownDifference(
        UNCHECKED,
        "CREATE_TOPICS",
        r"topics\[[^\]]+\]\..*",
        label="name '__cluster_metadata'|100000 partitions.*|assignment (of nobody|unknown node|same index|negative node)",
    ),
    KnownDifference(UNCHECKED, "CREATE_TOPICS", r"topics\[counts\]\.error_code", label="0 partitions, 0 replicas"),
    KnownDifference(UNCHECKED, "CREATE_PARTITIONS", r"results\[grow\]\.error_code", label="far too many"),
    KnownDifference(TWICE, "CREATE_TOPICS", r"topics\[(0|1|twice)\]", label="twice in one request"),
    KnownDifference(TWICE, "DELETE_TOPICS", rf"responses\[(0|1|{_LEFT})\]", label="twice|by name and by id"),
    KnownDifference(TWICE, "DESCRIBE_LOG_DIRS", rf"results\[0\]\.topics\[({_LEFT})\]", kafka="None"),
    KnownDifference(TWICE, "PRODUCE", r"responses.*", label="a partition twice|good and .*"),
    KnownDifference(TWICE, "PRODUCE", "", label="a partition twice|good and .*", kafka="<closed>"),
    KnownDifference(TWICE, "INCREMENTAL_ALTER_CONFIGS", r"responses\[(0|1|alter2)\]", label="resource twice"),
    KnownDifference(
        WORDS,
        "ELECT_LEADERS|(ALTER|LIST)_PARTITION_REASSIGNMENTS|UPDATE_FEATURES|(ALTER|DESCRIBE)_CLIENT_QUOTAS|ALTER_USER_SCRAM_CREDENTIALS",
        ".*error_message",
    ),
    KnownDifference(QUOTAS, "ALTER_CLIENT_QUOTAS", ".*error_code", label="(nothing|less|a key twice|an entity twice), .*", kafka="0 NONE"),
    KnownDifference(QUOTAS, "DESCRIBE_CLIENT_QUOTAS", r"entries\[.*'entity_name': 'u'.*\]", ours="None"),
    KnownDifference(QUOTAS, "DESCRIBE_CLIENT_QUOTAS", "error_code|entries", label="(the default|any) of a name.*", ours="42 .*|None"),
    KnownDifference(ACCIDENT, "DESCRIBE_CLIENT_QUOTAS", "error_code", label="(no name|an unknown match).*", kafka="-1 .*"),
    KnownDifference(ACCIDENT, "ELECT_LEADERS", ".*", label=_KIND_7, kafka="-1 .*|<timed out>"),
    KnownDifference(ACCIDENT, "ALTER_CONFIGS", r".*\.error_code", kafka="-1 .*"),
    KnownDifference(ACCIDENT, "PRODUCE", r"|.*log_start_offset", label="no records", kafka="<closed>|0"),
    KnownDifference(FORMAT, "CREATE_TOPICS", r"topics\[configured\]\..*", label="config: removed", ours="0 .*|None|1|{.*"),
    KnownDifference(FEWER, "CREATE_TOPICS", r"topics\[configured\]\..*", label="config: (remote|local)", ours="40 .*|<text>|-1|None"),
    KnownDifference(
        DESCRIBED, "DESCRIBE_CONFIGS", r".*configs\[(metric\.reporters\]\.value|process\.roles\]\.is_sensitive)", kafka="|False"
    ),
    KnownDifference(
        DESCRIBED, "INCREMENTAL_ALTER_CONFIGS", r".*error_(code|message)", label="read-only of the broker|process.roles=broker"
    ),
    KnownDifference(ACCIDENT, "DELETE_TOPICS", r".*\.error_code", label="zero id", kafka="29 .*"),
    KnownDifference(ACCIDENT, "LIST_OFFSETS", r".*\.(offset|leader_epoch)", label="the greatest of none", kafka="0"),
    KnownDifference(LATER, "DELETE_TOPICS", r"responses\[.*\](\.error_code)?", label="by id again"),
    KnownDifference(LAST, "ALTER_CONFIGS", r".*\.error_code", label="twice of .*", kafka="0 .*|3 .*"),
    KnownDifference(LAST, "DESCRIBE_CONFIGS", r".*configs\[retention\.ms\]\.(value|config_source)", label="twice: then"),
    KnownDifference(UNCHECKED_MEMBER, "HEARTBEAT", "error_code", label="unknown instance", kafka="0 NONE"),
    KnownDifference(UNCHECKED_MEMBER, "TXN_OFFSET_COMMIT", ".*error_code", label="of a generation", kafka="22 .*", ours="25 .*"),
    KnownDifference(MEMBERLESS, "OFFSET_COMMIT", r".*\.error_code", label="a stranger without generation", kafka="25 .*"),
    KnownDifference(STRANGER, "FETCH", r"responses.*", label="as a replica", ours="6 .*|-1"),
    KnownDifference(STRICTER, "DESCRIBE_CONFIGS", r".*configs\[cleanup\.policy\]\.value", kafka="(delete,)?compact(,compact)+"),
    KnownDifference(REMOVED, "API_VERSIONS", r"api_keys\[(56|67)\]", ours="None"),
)
"""The deliberate differences between Ottla with `--like RELEASE` and Apache Kafka of a release that still runs with ZooKeeper."""

KNOWN_OF_CLUSTERS: tuple[KnownDifference, ...] = (
    KnownDifference(TEXT, ".*", r".*error_message", kafka="None|", ours="<text>"),
    KnownDifference(FEWER, "DESCRIBE_CONFIGS", r"results\[2\]\.configs\[[^\]]+\]", label="all of a broker.*", ours="None"),
    ASSIGNED_AGAIN,
    KnownDifference(FIXED, "DESCRIBE_CONFIGS", r".*\[(listeners|listener\.security\.protocol\.map)\]\.read_only"),
    KnownDifference(OTHER, "DESCRIBE_CONFIGS", rf".*configs\[({OWN_SETTINGS})\]\.(value|synonyms\[[^\]]+\]\.value)"),
    KnownDifference(OTHER, "DESCRIBE_CONFIGS", r".*configs\[(cluster\.id|transaction\.version)\]", kafka="None"),
)
"""The deliberate differences in the cluster scenarios."""
