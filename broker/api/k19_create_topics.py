"""CreateTopics (key 19), versions 2-7: creates topics, each completely or not at all.

Promises:
* A topic without an error in the response is durable and ready to use. An error of one topic does not affect others.
* With validate_only everything is checked and nothing is created.
* From version 5 on the response has the topic's configuration with its sources, from version 7 on its id. With validate_only the id is a
  random one that no topic gets, or zero if a Kafka release with ZooKeeper is imitated.

`timeout_ms` is ignored: the controller is the quorum's only voter, so no decision waits for other controllers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import replace
from functools import partial

from ottla.broker.api.access import NOBODY, allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.mutation_quota import charged
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.configs.broker_config import BrokerConfigs, ConfigSource
from ottla.broker.configs.describe_configs import ConfigEntry, topic_entries
from ottla.broker.controller.create_topics import CreatedTopic, NewTopic, create_cluster_topics, duplicate_error, form_error
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API = Api(
    CreateTopicsRequest,
    forwarded=Forwarded.ALWAYS,
    splits=(Split("topics", "topics", ("name",)),),
    array_limits={"topics.assignments": 10_000, "topics.configs": 1_000},
)


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create the topics that the request names. When they are durable, return a result for each topic."""
    refused, hidden = _denied(ctx, request)
    wanted = [_new_topic(topic) for topic in request.topics if topic.name not in refused]
    charge, wait_ms = charged(ctx, strict_since=6)
    try:
        created = await ctx.services.active.run(
            partial(create_cluster_topics, topics=wanted, charge=charge), validate_only=request.validate_only
        )
    except Rejected as error:
        created = [CreatedTopic(topic.name, error.without_traceback()) for topic in wanted]
    if request.validate_only and ctx.services.settings.release_behaviour.has_zookeeper:
        created = [replace(topic, topic_id=ZERO_ID) for topic in created]
    denial = Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    times = Counter(topic.name for topic in request.topics if topic.name in refused)
    is_checked = not ctx.services.active.state.settings.release_behaviour.denies_metadata_topic
    created += [
        CreatedTopic(name, (form_error(name, count) if is_checked else duplicate_error(count)) or denial) for name, count in times.items()
    ]
    return CreateTopicsResponse(wait_ms(), [_result(topic, ctx.services.broker_configs, topic.name in hidden) for topic in created])


def _denied(ctx: Context[ControllerServices], request: CreateTopicsRequest) -> tuple[Set[str], Set[str]]:
    """Return two sets of topic names: those that the client may not create, and those whose configuration the response must not contain,
    because the client may not describe it."""
    refused = frozenset({CLUSTER_METADATA}) if ctx.services.active.state.settings.release_behaviour.denies_metadata_topic else NOBODY
    if ctx.services.authorizer is None:
        return refused, NOBODY
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    hidden = denied(ctx, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, names, quietly=True)
    if allowed_of_cluster(ctx, Operation.CREATE, quietly=True):
        return refused, hidden
    return refused | denied(ctx, Operation.CREATE, Resource.TOPIC, names), hidden


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(each.partition_index, each.broker_ids) for each in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )


def _result(created: CreatedTopic, broker_configs: BrokerConfigs, is_hidden: bool) -> CreatableTopicResult:
    code, message = error_fields(created.error)
    result = CreatableTopicResult(created.name, error_code=code, error_message=message)
    if created.error is None:
        result.topic_id = created.topic_id
        if is_hidden:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return result
        result.num_partitions = created.num_partitions
        result.replication_factor = created.replication_factor
        result.configs = [
            CreatableTopicConfigs(
                entry.name,
                entry.value
                if broker_configs.settings.release_behaviour.has_zookeeper
                else created.configs.get(entry.name, _as_written(entry)),
                entry.read_only,
                entry.source,
                entry.sensitive,
            )
            for entry in topic_entries(created.configs, broker_configs)
        ]
    return result


def _as_written(entry: ConfigEntry) -> str | None:
    """Return a topic setting's value for the response. If the value comes from a dynamic broker setting, it is the text that the client set
    for the broker, not a normalized form of it (KAFKA KafkaConfigSchema).
    """
    is_changed = entry.source in {ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER}
    return entry.synonyms[0][1] if is_changed else entry.value
