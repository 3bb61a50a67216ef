"""The admin operations that `ottla` and Kafka's tools have in common; their commands differ only in options and output.

A rejected operation raises `ErrorResponse`. The exception's text names the object of the operation. Its `error_message` is the broker's own
message, which Kafka's tools print.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.broker.cli.cluster import AdminClient, check
from ottla.broker.security.scram import SCRAM_KINDS, salted_password
from ottla.protocol.messages.k16_list_groups import ListedGroup, ListGroupsRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

TOPIC: Final = 2
"""The code of the resource type TOPIC in Kafka's ConfigResource.Type."""
TIMEOUT_MS: Final = 60_000
SCRAM_NAMES: Final[Mapping[int, str]] = {kind.number: kind.name for kind in SCRAM_KINDS.values()}
_SET, _DELETE = 0, 1
_SALT_BYTES: Final = 24

Ask = Callable[[Any], Any]
"""A function that sends a request to a broker that can answer it, such as the controller, and returns the response."""


# --- topics -------------------------------------------------------------------------------------------------------------------


def create_topic(cluster: AdminClient, topic: CreatableTopic) -> CreatableTopicResult:
    """Create a topic; return its result, with the partitions, replicas and settings that the cluster chose. Raises ErrorResponse if the
    cluster rejects it."""
    made: CreatableTopicResult
    (made,) = cluster.controller(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)).topics
    check(made.error_code, f"topic {topic.name!r} was not created", made.error_message)
    return made


def add_partitions(cluster: AdminClient, topics: Sequence[str], count: int) -> None:
    """Increase the number of partitions of each topic to `count`. Raises ErrorResponse at the first topic that was rejected."""
    wanted = [CreatePartitionsTopic(topic, count, None) for topic in topics]
    for result in cluster.controller(CreatePartitionsRequest(wanted, timeout_ms=TIMEOUT_MS)).results if wanted else ():
        check(result.error_code, f"partitions of topic {result.name!r} were not added", result.error_message)


def delete_topics(cluster: AdminClient, topics: Sequence[str]) -> Iterator[str]:
    """Delete topics with one request, which is sent at the first `next`. Yield the names of the deleted topics in the given order, and
    raise ErrorResponse at the first that was not deleted; topics after it may have been deleted."""
    request = DeleteTopicsRequest([DeleteTopicState(topic) for topic in topics], list(topics), TIMEOUT_MS)
    by_name = {answer.name: answer for answer in cluster.controller(request).responses} if topics else {}
    for topic in topics:
        check(by_name[topic].error_code, f"topic {topic!r} was not deleted", by_name[topic].error_message)
        yield topic


# --- settings -----------------------------------------------------------------------------------------------------------------


def describe_configs(ask: Ask, kind: int, name: str, *, synonyms: bool = False) -> list[Any]:
    """Return the settings of the resource `name`, including inherited ones and defaults. `kind` is the number of its type (topic, broker,
    …) in Kafka's ConfigResource.Type; `ask` sends a request to a broker that can answer it. With `synonyms`, each setting also has its
    values at other levels. Raises ErrorResponse, for instance for an unknown topic."""
    (result,) = ask(DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], include_synonyms=synonyms)).results
    check(result.error_code, f"settings of {name!r}", result.error_message)
    found: list[Any] = result.configs
    return found


def alter_configs(ask: Ask, kind: int, name: str, added: Iterable[tuple[str, str]], removed: Iterable[str]) -> None:
    """Set the settings `added` and remove the settings `removed` of the resource `name`, with one IncrementalAlterConfigs. `kind` is the
    number of its type (topic, broker, …) in Kafka's ConfigResource.Type; `ask` sends a request to a broker that can answer it. Raises
    ErrorResponse if the change is rejected."""
    changes = [AlterableConfig(each, _DELETE, None) for each in removed] + [AlterableConfig(each, _SET, value) for each, value in added]
    (answer,) = ask(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)])).responses
    check(answer.error_code, f"settings of {name!r} were not changed", answer.error_message)


# --- groups -------------------------------------------------------------------------------------------------------------------


def list_groups(cluster: AdminClient) -> list[ListedGroup]:
    """Return the groups of all brokers, sorted by group id. Raises ErrorResponse if a broker answers with an error."""
    answers = cluster.every_broker(ListGroupsRequest())
    for answer in answers:
        check(answer.error_code, "groups of a broker")
    return sorted((group for answer in answers for group in answer.groups), key=lambda group: str(group.group_id))


def delete_group(cluster: AdminClient, group: str) -> None:
    """Delete a group without members, with its committed offsets. Raises ErrorResponse, for instance if the group has members."""
    (result,) = cluster.coordinator(group, DeleteGroupsRequest([group])).results
    check(result.error_code, f"group {group!r} was not deleted")


# --- users --------------------------------------------------------------------------------------------------------------------


def scram_credential(user: str, mechanism: str, password: str, iterations: int) -> ScramCredentialUpsertion:
    """Return a request to store a user's SCRAM credential. It contains the salted hash of the password, not the password itself."""
    kind, salt = SCRAM_KINDS[mechanism], os.urandom(_SALT_BYTES)
    return ScramCredentialUpsertion(user, kind.number, iterations, salt, salted_password(kind, password, salt, iterations))


def alter_scram(cluster: AdminClient, user: str, removed: Iterable[str], added: Sequence[ScramCredentialUpsertion]) -> None:
    """Remove a user's SCRAM credentials for the mechanisms `removed`, and store the new credentials `added`. Any broker forwards the
    request to the controller. Raises ErrorResponse if the change is rejected."""
    deletions = [ScramCredentialDeletion(user, SCRAM_KINDS[mechanism].number) for mechanism in removed]
    for result in cluster.any(AlterUserScramCredentialsRequest(deletions, list(added))).results:
        check(result.error_code, result.user, result.error_message)
