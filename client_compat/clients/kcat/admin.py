"""Admin operations with `kcat -L` and `kcat -Q`, which can only read."""

from __future__ import annotations

import json
from typing import Any

from client_compat.clients.control import Answer, Request, Unsupported
from client_compat.clients.kcat.command import KcatFailed, checked, kcat
from client_compat.clients.kcat.consumer import QUERIES, query


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def close(self) -> None:
        """Do nothing, because no kcat process runs between two operations."""

    def list_topics(self, request: Request) -> Answer:
        """List the topics without internal ones. kcat does not mark these, so names with two leading underscores are skipped."""
        return {"topics": [one["topic"] for one in self._metadata(request)["topics"] if not one["topic"].startswith("__")]}

    def describe_topic(self, request: Request) -> Answer:
        (topic,) = self._metadata(request, "-t", request["topic"])["topics"]
        if topic.get("error"):
            raise KcatFailed(topic["error"])
        return {
            "partitions": [
                {
                    "partition": one["partition"],
                    "leader": one["leader"],
                    "replicas": [replica["id"] for replica in one["replicas"]],
                    "isr": [replica["id"] for replica in one["isrs"]],
                }
                for one in topic["partitions"]
            ]
        }

    def list_offsets(self, request: Request) -> Answer:
        rows = []
        for topic, index, at in request["offsets"]:
            if at == "max_timestamp":
                raise Unsupported("kcat asks for offsets by time, the beginning and the end, not for the largest timestamp")
            offset = query(self._bootstrap, (topic, index), QUERIES.get(at, at), request.timeout_s)
            rows.append([topic, index, offset])
        return {"offsets": rows}

    def describe_cluster(self, request: Request) -> Answer:
        """Describe the cluster, without its id, which kcat does not report."""
        metadata = self._metadata(request)
        nodes = [[one["id"], *_address(one["name"])] for one in metadata["brokers"]]
        return {"cluster_id": None, "controller": metadata.get("controllerid"), "nodes": nodes}

    def _metadata(self, request: Request, *more: str) -> Any:
        return json.loads(checked(kcat("-L", "-J", "-b", self._bootstrap, *more, timeout_s=request.timeout_s)).stdout)


def _address(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
