"""The admin operations of the control protocol (CONTROL.md), implemented with kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import AbortTransactionSpec, ConfigResource, OffsetSpec
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from client_compat.clients.control import Answer, Failure, Request
from client_compat.clients.python.with_kafka_python import errors

SPECS = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "max_timestamp": OffsetSpec.MAX_TIMESTAMP}


class Refused(KafkaError):  # type: ignore[misc]  # the library has no types
    """An error that kafka-python returns as text instead of raising it."""


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def create_topics(self, request: Request) -> Answer:
        wanted = {
            one["name"]: {
                "num_partitions": one["partitions"],
                "replication_factor": one.get("replication", 1),
                "configs": one.get("configs") or {},
            }
            for one in request["topics"]
        }
        response = self._admin.create_topics(wanted, raise_errors=False)
        return {"results": {one["name"]: errors.of_code(one["error_code"], one.get("error_message")) for one in response["topics"]}}

    def delete_topics(self, request: Request) -> Answer:
        response = self._admin.delete_topics(request["topics"], raise_errors=False)
        return {"results": {one["name"]: errors.of_code(one["error_code"], one.get("error_message")) for one in response["topics"]}}

    def list_topics(self, request: Request) -> Answer:
        return {"topics": [one["name"] for one in self._admin.describe_topics() if not one["is_internal"]]}

    def describe_topic(self, request: Request) -> Answer:
        (topic,) = self._admin.describe_topics([request["topic"]])
        if topic["error_code"]:
            raise kafka_errors.for_code(topic["error_code"])(request["topic"])
        names = {"partition": "partition_index", "leader": "leader_id", "replicas": "replica_nodes", "isr": "isr_nodes"}
        return {"partitions": [{ours: one[its] for ours, its in names.items()} for one in topic["partitions"]]}

    def create_partitions(self, request: Request) -> None:
        self._admin.create_partitions({request["topic"]: request["count"]})

    def describe_configs(self, request: Request) -> Answer:
        response = self._admin.describe_configs([ConfigResource(request["resource"], request["name"])], config_filter="all")
        entries = response[request["resource"]][request["name"]]
        return {"configs": {name: entry["value"] for name, entry in entries.items()}}

    def alter_configs(self, request: Request) -> None:
        changes: dict[str, Any] = {name: ("SET", value) for name, value in (request.get("set") or {}).items()}
        changes.update(dict.fromkeys(request.get("delete") or (), ("DELETE", None)))
        response = self._admin.alter_configs([ConfigResource(request["resource"], request["name"], changes)])
        for results in response.values():
            for result in results.values():
                if result != "OK":
                    raise Refused(result)

    def delete_records(self, request: Request) -> Answer:
        response = self._admin.delete_records({TopicPartition(topic, index): before for topic, index, before in request["offsets"]})
        return {"low": [[*partition, _low(one)] for partition, one in response.items()]}

    def list_offsets(self, request: Request) -> Answer:
        requested = {TopicPartition(topic, index): SPECS.get(at, at) for topic, index, at in request["offsets"]}
        return {"offsets": [[*partition, one.offset] for partition, one in self._admin.list_partition_offsets(requested).items()]}

    def list_groups(self, request: Request) -> Answer:
        rows = self._admin.list_groups()
        return {"groups": [[one["group_id"], one.get("group_type"), one.get("group_state")] for one in rows]}

    def describe_group(self, request: Request) -> Answer:
        """Describe a group with DescribeGroups, because kafka-python lacks ConsumerGroupDescribe. A KIP-848 group is therefore reported as
        dead."""
        response = self._admin.describe_groups([request["group"]])[request["group"]]
        if response["error"]:
            raise Refused(response["error"])
        members = [
            {
                "id": one["member_id"],
                "client_id": one["client_id"],
                "instance_id": one.get("group_instance_id"),
                "partitions": _assigned(one["member_assignment"]),
            }
            for one in response["members"]
        ]
        return {"state": response["group_state"], "assignor": response["protocol_data"], "members": members}

    def group_offsets(self, request: Request) -> Answer:
        response = self._admin.list_group_offsets(request["group"])[request["group"]]
        return {"offsets": [[*partition, one.offset] for partition, one in response.items()]}

    def alter_group_offsets(self, request: Request) -> None:
        offsets = {TopicPartition(topic, index): OffsetAndMetadata(offset, "", -1) for topic, index, offset in request["offsets"]}
        for kind in self._admin.alter_group_offsets(request["group"], offsets).values():
            if kind is not kafka_errors.NoError:
                raise kind()

    def delete_groups(self, request: Request) -> Answer:
        """Delete groups; return each one's error. The client reports only the name of its error class, or OK."""
        response = self._admin.delete_groups(request["groups"])
        return {"results": {group: None if status == "OK" else _named(status) for group, status in response.items()}}

    def describe_producers(self, request: Request) -> Answer:
        producers = [
            {
                "producer_id": one.producer_id,
                "epoch": one.producer_epoch,
                "last_sequence": one.last_sequence,
                "txn_start": one.current_transaction_start_offset,
            }
            for one in self._producers(request)
        ]
        return {"producers": producers}

    def list_transactions(self, request: Request) -> Answer:
        rows = [one for listed in self._admin.list_transactions().values() for one in listed]
        return {"transactions": [[one.transactional_id, one.producer_id, one.state.value] for one in rows]}

    def describe_transaction(self, request: Request) -> Answer:
        name = request["transactional_id"]
        response = self._admin.describe_transactions([name])[name]
        return {
            "state": response.state.value,
            "producer_id": response.producer_id,
            "epoch": response.producer_epoch,
            "timeout_ms": response.transaction_timeout_ms,
            "partitions": [list(partition) for partition in sorted(response.topic_partitions)],
        }

    def abort_transaction(self, request: Request) -> None:
        """Abort a transaction. The client requires the producer id, which is found by the transaction's start offset."""
        found = [one for one in self._producers(request) if one.current_transaction_start_offset == request["start_offset"]]
        if not found:
            raise Refused(f"no producer has a transaction that began at {request['start_offset']}")
        partition = TopicPartition(*request["partition"])
        self._admin.abort_transaction(AbortTransactionSpec(partition, found[0].producer_id, found[0].producer_epoch))

    def describe_cluster(self, request: Request) -> Answer:
        response = self._admin.describe_cluster()
        nodes = [[one["broker_id"], one["host"], one["port"]] for one in response["brokers"]]
        return {"cluster_id": response["cluster_id"], "controller": response["controller_id"], "nodes": nodes}

    def _producers(self, request: Request) -> list[Any]:
        partition = TopicPartition(*request["partition"])
        return list(self._admin.describe_producers([partition])[partition].active_producers)


def _assigned(assignment: Any) -> list[list[Any]]:
    rows = assignment.get("assigned_partitions", ()) if isinstance(assignment, dict) else ()
    return [[one["topic"], index] for one in rows for index in one["partitions"]]


def _low(response: Any) -> int:
    low = response["low_watermark"] if isinstance(response, dict) else response.low_watermark
    return int(low)


def _named(name: str) -> Answer:
    kind = getattr(kafka_errors, name, None)
    return (errors.of_class(kind) if kind else None) or Failure(f"CLIENT:{name}").as_json()
