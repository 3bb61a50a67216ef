"""aiokafka's admin client. It returns the broker's responses, whose error codes are checked here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource
from aiokafka.errors import for_code

from client_compat.clients.control import Answer, Request, Unsupported
from client_compat.clients.python.with_aiokafka.errors import failure


class Admin:
    def __init__(self, admin: AIOKafkaAdminClient) -> None:
        self._admin = admin

    @classmethod
    async def open(cls, bootstrap: str) -> Admin:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            await admin.start()
        except BaseException:
            await admin.close()
            raise
        return cls(admin)

    async def close(self) -> None:
        await self._admin.close()

    async def create_topics(self, request: Request) -> Answer:
        wanted = [
            NewTopic(one["name"], one["partitions"], one.get("replication", 1), topic_configs=one.get("configs") or {})
            for one in request["topics"]
        ]
        response = await self._admin.create_topics(wanted)
        return {"results": {name: _error(code, *message) for name, code, *message in response.topic_errors}}

    async def delete_topics(self, request: Request) -> Answer:
        response = await self._admin.delete_topics(request["topics"])
        return {"results": {name: _error(code) for name, code, *_ in response.topic_error_codes}}

    async def list_topics(self, request: Request) -> Answer:
        return {"topics": [one["topic"] for one in await self._admin.describe_topics() if not one["is_internal"]]}

    async def describe_topic(self, request: Request) -> Answer:
        (topic,) = await self._admin.describe_topics([request["topic"]])
        _check(topic["error_code"], request["topic"])
        return {"partitions": [{name: one[name] for name in ("partition", "leader", "replicas", "isr")} for one in topic["partitions"]]}

    async def create_partitions(self, request: Request) -> None:
        await self._admin.create_partitions({request["topic"]: NewPartitions(request["count"])})

    async def describe_configs(self, request: Request) -> Answer:
        (response,) = await self._admin.describe_configs([ConfigResource(request["resource"], request["name"])])
        ((code, message, _, _, entries),) = response.resources
        _check(code, message)
        return {"configs": {name: value for name, value, *_ in entries}}

    async def alter_configs(self, request: Request) -> None:
        """Set a topic's settings with AlterConfigs. This request replaces all settings, so the settings in the argument `delete` need not
        be sent: they are deleted because they are missing. Raises Unsupported for other resources than topics."""
        if request["resource"] != "topic":
            raise Unsupported("aiokafka's alter_configs of a broker sends a second request, without resources, that it never needs")
        for response in await self._admin.alter_configs([ConfigResource("topic", request["name"], request.get("set") or {})]):
            for code, message, *_ in response.resources:
                _check(code, message)

    async def delete_records(self, request: Request) -> Answer:
        wanted = {TopicPartition(topic, index): RecordsToDelete(before) for topic, index, before in request["offsets"]}
        return {"low": [[*partition, offset] for partition, offset in (await self._admin.delete_records(wanted)).items()]}

    async def list_groups(self, request: Request) -> Answer:
        """List the groups. aiokafka reports neither type nor state."""
        return {"groups": [[row[0], None, None] for row in await self._admin.list_consumer_groups()]}

    async def describe_group(self, request: Request) -> Answer:
        ((group, *_),) = [response.groups for response in await self._admin.describe_consumer_groups([request["group"]])]
        code, _, state, _, protocol, members, *_ = group
        _check(code, request["group"])
        return {
            "state": state,
            "assignor": protocol,
            "members": [{"id": member[0], "client_id": member[-4]} for member in members],
        }

    async def group_offsets(self, request: Request) -> Answer:
        offsets = await self._admin.list_consumer_group_offsets(request["group"])
        return {"offsets": [[*partition, one.offset] for partition, one in offsets.items()]}

    async def describe_cluster(self, request: Request) -> Answer:
        response = await self._admin.describe_cluster()
        nodes = [[one["node_id"], one["host"], one["port"]] for one in response["brokers"]]
        return {"cluster_id": response.get("cluster_id"), "controller": response["controller_id"], "nodes": nodes}


def _check(code: int, message: str | None) -> None:
    if code:
        raise for_code(code)(message)


def _error(code: int, *message: Any) -> Answer | None:
    if not code:
        return None
    failed = failure(for_code(code)(*_texts(message)))
    assert failed is not None, "for_code gives errors of the client's own"
    return failed.as_json()


def _texts(message: Iterable[Any]) -> list[str]:
    return [text for text in message if isinstance(text, str)]
