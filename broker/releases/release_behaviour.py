"""How a broker imitates a release of Apache Kafka towards its clients (`ottla serve --like`), according to the release's table.

Rules:
- Every broker imitates a release: by default `DEFAULT_RELEASE`, which is the only one that cluster nodes can imitate.
- Only clients see the difference. Files have the formats of the feature levels in the metadata log, whatever release the broker imitates.
- Nothing is offered that Ottla does not implement: versions that 4.0 removed (KIP-896) and APIs of ZooKeeper clusters are left out.
- DescribeConfigs omits a setting that the release does not have. The setting then has the default of the first release that had it, because
  with this default that release behaved as the earlier ones. The exceptions are in `_BEFORE_THE_SETTING`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from ottla.broker.releases.table import ReleaseTable, order, releases, table_of

DEFAULT_RELEASE: Final = "4.4"
"""The release of Apache Kafka that a broker imitates without the option `--like`. Ottla implements it in full."""
GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"
SHARE_VERSION: Final = "share.version"
TRANSACTION_VERSION: Final = "transaction.version"
"""The name of a feature. Ottla also has a setting of this name, for the feature's level."""

ADDRESS_RANGES: Final = 32
"""The level of metadata.version (4.4-IV1) from which on ACLs can name hosts by address ranges."""

# The first release with each behaviour, as (major, minor); the properties of `ReleaseBehaviour` describe the behaviours.
_LATE_COMMITS: Final = (4, 3)
_REMOVED_EXPRESSIONS_END: Final = (4, 1)
_SUBSCRIPTIONS_END_AT_ONCE: Final = (4, 2)
_UNFENCED_READS: Final = (4, 3)
_ABSENT_GROUPS: Final = (4, 0)
_BROKER_CHANGES_AUTHORIZED_FIRST: Final = (4, 4)
_FEATURES_TOGETHER: Final = (4, 0)
_TELEMETRY_FIXED: Final = (4, 0)
_SPECIAL_TIMESTAMPS_CHECKED: Final = (3, 9)
_LOG_DIRS_FILTERED: Final = (3, 7)
_METADATA_TOPIC_PROHIBITED: Final = (3, 9)
_METRICS_DECOMPRESSED: Final = (3, 8)
_STATES_OF_ANY_CASE: Final = (3, 8)
_TYPED_CLIENT_METRICS: Final = (4, 1)
_NO_ABORTED_LISTED: Final = (3, 0)
_LOGGER_ERRORS: Final = (3, 2)
_ZSTD_FOR_ALL: Final = (4, 0)
_ZOOKEEPER: Final = "ZooKeeper"
"""The value of `ReleaseTable.mode` for releases whose brokers kept metadata in ZooKeeper."""

_STREAMS_HEARTBEAT_4_4: Final = 1
"""The version of StreamsGroupHeartbeat that Kafka 4.4 added."""

_TXN_OFFSET_COMMIT_4_4: Final = 6
"""The version of TxnOffsetCommit that Kafka 4.4 added: topics by id."""

_SHARE_VERSION_4_4: Final = 2
"""The level of share.version that Kafka 4.4 added."""

_BEFORE_THE_SETTING: Final[Mapping[str, str]] = {
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")},  # 4.3 began to delay assignments
    "transaction.partition.verification.enable": "false",  # 3.6 began to verify (KIP-890, part 1)
}
"""Settings that came together with a changed behaviour, each with the value that gives the earlier behaviour. A broker that imitates a
release without the setting uses this value."""
_OF_THIS_NODE: Final = frozenset(
    {
        "group.consumer.assignors",  # names of Java classes before 4.0
        "metric.reporters",  # there are no Java classes to load
    }
)
"""Settings that have Ottla's own default, whatever release the broker imitates."""


class ReleaseBehaviour:
    """The behaviour of the Apache Kafka release that a broker imitates towards clients (`--like`). There is one object for each release."""

    def __init__(self, release: str) -> None:
        first, *later = releases(release).values()
        newest = later[-1] if later else first
        self.table: Final[ReleaseTable] = first
        self._order: Final = order(first.release)
        self._newest_settings: Final = {**newest.broker_settings, TRANSACTION_VERSION: str(newest.features[TRANSACTION_VERSION][2])}
        self._later_topic_settings: Final = frozenset(newest.topic_settings.keys() - first.topic_settings.keys())
        self._defaults: Final = dict(_changed_defaults(first, later))

    @property
    def release(self) -> str:
        return self.table.release

    @property
    def has_group_settings(self) -> bool:
        """Whether groups have dynamic settings of their own, as since 4.0, which introduced the new consumer groups."""
        return GROUP_VERSION in self.table.features

    @property
    def describes_client_metrics(self) -> bool:
        """Whether DescribeConfigs returns client metrics subscriptions with types, defaults and synonyms, as since 4.1. Before, it returned
        only the settings that were set.
        """
        return self._order >= _TYPED_CLIENT_METRICS

    @property
    def has_zookeeper(self) -> bool:
        """Whether brokers of the release kept metadata in ZooKeeper. Their controller, `ZkAdminManager`, validates other things, in another
        order and with other errors than KRaft's.
        """
        return self.table.mode == _ZOOKEEPER

    @property
    def has_client_metrics(self) -> bool:
        """Whether the release has client metrics subscriptions, which are resources with settings (KIP-714)."""
        return "GetTelemetrySubscriptions" in self.table.apis

    @property
    def describes_requested_log_dirs_only(self) -> bool:
        """Whether DescribeLogDirs omits topics that the request does not name, as since 3.7. Before, the response listed such topics
        without partitions.
        """
        return self._order >= _LOG_DIRS_FILTERED

    @property
    def lists_no_aborted_transactions(self) -> bool:
        """Whether Fetch returns an empty list of aborted transactions for an unknown partition, as since 3.0. Before, it returned null."""
        return self._order >= _NO_ABORTED_LISTED

    @property
    def accepts_zstd_of_all_versions(self) -> bool:
        """Whether every Fetch returns records of topics with `compression.type=zstd`, as since 4.0. Before, a Fetch below version 10 for
        such a topic was rejected.
        """
        return self._order >= _ZSTD_FOR_ALL

    @property
    def has_logger_errors(self) -> bool:
        """Whether IncrementalAlterConfigs rejects an unknown logger or level with INVALID_CONFIG, and a logger resource without a name with
        INVALID_REQUEST. Before 3.2, an unknown logger or level got INVALID_REQUEST, and an empty name meant the broker that received the
        request.
        """
        return self._order >= _LOGGER_ERRORS

    @property
    def accepts_append_time(self) -> bool:
        """Whether a topic with CreateTime accepts batches whose timestamp type is LogAppendTime, as since 3.6, in which
        message.timestamp.before.max.ms and message.timestamp.after.max.ms replaced message.timestamp.difference.max.ms (KIP-937)."""
        return "message.timestamp.after.max.ms" in self.table.topic_settings

    def has_special_timestamp(self, since_version: int) -> bool:
        """Return whether the release knows a special timestamp of ListOffsets (such as -3), which the request's version `since_version`
        introduced.
        """
        return since_version <= self.table.apis["ListOffsets"][1]

    @property
    def checks_special_timestamps(self) -> bool:
        """Whether ListOffsets rejects a special timestamp (such as -3) that the request's version does not have. Before 3.9, the release
        accepted every special timestamp it knew in all versions, and looked up any other negative timestamp like an ordinary one.
        """
        return self._order >= _SPECIAL_TIMESTAMPS_CHECKED

    @property
    def updates_features_together(self) -> bool:
        """Whether UpdateFeatures changes all features of a request or none. Before 4.0, each feature was changed or rejected separately."""
        return self._order >= _FEATURES_TOGETHER

    @property
    def allows_telemetry_retry_after_error(self) -> bool:
        """Whether a client may get its metrics subscription again at once after an error about its subscription or compression type. Before
        4.0, every GetTelemetrySubscriptions within the push interval was throttled."""
        return self._order >= _TELEMETRY_FIXED

    @property
    def forgets_closed_clients(self) -> bool:
        """Whether a client instance with metrics is removed with its connection. Before 4.0 it stayed until it expired."""
        return self._order >= _TELEMETRY_FIXED

    @property
    def decompresses_client_metrics(self) -> bool:
        """Whether pushed client metrics that cannot be decompressed are rejected, as since 3.8. Kafka 3.7 passes them to its plug-ins
        compressed."""
        return self._order >= _METRICS_DECOMPRESSED

    @property
    def denies_metadata_topic(self) -> bool:
        """Whether a request to create `__cluster_metadata` is rejected as unauthorized, for every user. Since 3.9 it is rejected as invalid
        instead.
        """
        return self._order < _METADATA_TOPIC_PROHIBITED

    @property
    def has_states_of_any_case(self) -> bool:
        """Whether the filter of group states in ListGroups is case-insensitive, as since 3.8."""
        return self._order >= _STATES_OF_ANY_CASE

    @property
    def knows_absent_groups(self) -> bool:
        """Whether OffsetCommit 9 and later rejects an unknown group with GROUP_ID_NOT_FOUND. Before 4.0, a commit with a generation to an
        unknown group got ILLEGAL_GENERATION.
        """
        return self._order >= _ABSENT_GROUPS

    @property
    def authorizes_broker_changes_first(self) -> bool:
        """Whether a broker authorizes changes of broker settings before it validates them, as since 4.4."""
        return self._order >= _BROKER_CHANGES_AUTHORIZED_FIRST

    @property
    def has_address_ranges(self) -> bool:
        """Whether ACLs can name hosts by address ranges in CIDR notation, which came with the metadata.version 4.4-IV1."""
        return self.table.features.get(METADATA_VERSION, (0, 0, 0))[1] >= ADDRESS_RANGES

    @property
    def has_strict_share_states(self) -> bool:
        """Whether the share coordinator rejects requests with leader or state epoch -1, and never lowers the count of completed deliveries,
        as since the release that introduced share.version 2 (4.4).
        """
        return self.table.features.get(SHARE_VERSION, (0, 0, 0))[1] >= _SHARE_VERSION_4_4

    @property
    def requires_token_claims(self) -> bool:
        """Whether a signed OAUTHBEARER token is valid only with an expected audience and an expected issuer, as since 4.4, unless a setting
        allows any."""
        return "sasl.oauthbearer.allow.unverified.audience" in self.table.broker_settings

    @property
    def delays_assignments(self) -> bool:
        """Whether groups have an assignment interval (group.consumer.assignment.interval.ms), as since 4.3.

        With this setting came two other changes. The epochs of a group begin at 1 instead of 0. And if a share group has initialized
        partitions that are not assigned, its epoch is increased only if its target assignment is that of its present epoch.
        """
        return "group.consumer.assignment.interval.ms" in self.table.broker_settings

    @property
    def accepts_late_commits(self) -> bool:
        """Whether group members may commit offsets with an older member epoch than their present one, as since 4.3 (KIP-1251)."""
        return self._order >= _LATE_COMMITS

    @property
    def ends_removed_expressions(self) -> bool:
        """Whether a consumer group member that removes its regular expression loses the partitions of the matching topics. In 4.0 it kept
        them until the next change of the group.
        """
        return self._order >= _REMOVED_EXPRESSIONS_END

    @property
    def ends_subscriptions_at_once(self) -> bool:
        """Whether a consumer group member loses the partitions of a topic with the heartbeat that ends its subscription to the topic.
        Before 4.2 it kept them until the next target assignment, which also waited for the resolution of new regular expressions.
        """
        return self._order >= _SUBSCRIPTIONS_END_AT_ONCE

    @property
    def reads_share_state_unfenced(self) -> bool:
        """Whether a read of share state with the leader epoch -1 succeeds. Before 4.3 it was fenced like any older epoch."""
        return self._order >= _UNFENCED_READS

    @property
    def assigns_empty_groups(self) -> bool:
        """Whether the target assignment of a group that becomes empty gets the group's new epoch at once, as since 4.4."""
        return self.table.apis.get("TxnOffsetCommit", (0, 0))[1] >= _TXN_OFFSET_COMMIT_4_4

    @property
    def follows_preferred_assignor(self) -> bool:
        """Whether a consumer group is assigned again at once when another assignor becomes its preferred one, as since 4.4."""
        return self.assigns_empty_groups

    @property
    def reads_added_partitions_whole(self) -> bool:
        """Whether a share group reads a partition that is added to one of its topics from offset 0, as since 4.4; before, from
        share.auto.offset.reset."""
        return self.assigns_empty_groups

    @property
    def refuses_repeated_policies(self) -> bool:
        """Whether a running broker refuses a log.cleanup.policy that names a policy twice, as since 4.4."""
        return self.assigns_empty_groups

    @property
    def extends_streams_groups(self) -> bool:
        """Whether members of streams groups may be static and report the changelog offsets of their tasks, as since 4.4."""
        return self.table.apis.get("StreamsGroupHeartbeat", (0, 0))[1] >= _STREAMS_HEARTBEAT_4_4

    def versions(self, api: str, first: int, last: int) -> tuple[int, int] | None:
        """Return the first and last of the API versions `first` to `last` that the release serves; None if it serves none. `api` is the
        API's name in Kafka's schemas.
        """
        served = self.table.apis.get(api)
        if served is None:
            return None
        first, last = max(first, served[0]), min(last, served[1])
        return (first, last) if first <= last else None

    def levels(self, feature: str, lowest: int, highest: int) -> tuple[int, int] | None:
        """Return the range of levels of a feature that both the release and Ottla support: the part of `lowest` to `highest`, Ottla's
        levels, that the release has. None if the release does not have the feature."""
        if feature not in self.table.features:
            return None
        low, high, _ = self.table.features[feature]
        return max(lowest, low), min(highest, high)

    def new_level(self, feature: str, own: int) -> int:
        """Return the level of a feature in a new data directory: the release's, but at most `own`, the level that Ottla would use.

        ZooKeeper releases have no `metadata.version`; the level of the metadata log, which clients cannot see, is then `own`.
        """
        if feature not in self.table.features:
            return own if feature == METADATA_VERSION else 0
        return min(own, self.table.features[feature][2])

    def above(self, levels: Mapping[str, int]) -> Iterator[str]:
        """Yield a text for each feature whose level in a data directory is above the levels that the release supports."""
        for name, level in sorted(levels.items()):
            highest = self.table.features.get(name, (0, 0, 0))[1]
            if level > highest and not (name == METADATA_VERSION and name not in self.table.features):
                yield f"{name} is at level {level}, and Apache Kafka {self.release} " + (
                    f"supports at most {highest}" if highest else "does not have this feature"
                )

    def default(self, setting: str, own: str | None) -> str | None:
        """Return the release's default of a broker setting. `own` is Ottla's default. If it differs from the default of the newest Kafka
        release, Ottla has deviated from Kafka on purpose: return `own` for every release."""
        if setting not in self._defaults or own != self._newest_settings[setting]:
            return own
        return self._defaults[setting]

    def lacks(self, setting: str) -> bool:
        """Return whether the release does not have this broker setting, which the newest release has."""
        return setting in self._newest_settings and setting not in self.table.broker_settings and setting != TRANSACTION_VERSION

    def lacks_of_topics(self, setting: str) -> bool:
        """Return whether the release does not have this topic setting, which the newest release has."""
        return setting in self._later_topic_settings


def _changed_defaults(table: ReleaseTable, later: Sequence[ReleaseTable]) -> Iterator[tuple[str, str | None]]:
    for name, newest in (later[-1] if later else table).broker_settings.items():
        default = next(each.broker_settings[name] for each in (table, *later) if name in each.broker_settings)
        if name in _BEFORE_THE_SETTING and name not in table.broker_settings:
            default = _BEFORE_THE_SETTING[name]
        if default != newest and name not in _OF_THIS_NODE:
            yield name, default
    yield TRANSACTION_VERSION, str(table.features.get(TRANSACTION_VERSION, (0, 0, 0))[2])


def behaviour_of(name: str) -> ReleaseBehaviour:
    """Return how a broker imitates a release (`3.7`) or a patch version of it (`3.7.0`). Raises `UnknownRelease` if there is no table of
    it."""
    return _made(table_of(name).release)


def default_behaviour() -> ReleaseBehaviour:
    """Return how a broker behaves without the option `--like`: as `DEFAULT_RELEASE`."""
    return _made(DEFAULT_RELEASE)


@cache
def _made(release: str) -> ReleaseBehaviour:
    return ReleaseBehaviour(release)
