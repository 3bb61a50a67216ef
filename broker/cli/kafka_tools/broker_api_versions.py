"""`kafka-broker-api-versions`: the API versions that each broker supports (Kafka's BrokerApiVersionsCommand)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.broker.cli.kafka_tools.options import ToolParser, cluster_of, guarded
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-broker-api-versions`."""
    made = ToolParser("kafka-broker-api-versions", "This tool helps to retrieve broker version information.")
    made.cluster_options()
    return made


@guarded("")
def main(argv: Sequence[str]) -> int:
    """Run `kafka-broker-api-versions` with the arguments `argv`; return its exit code."""
    options = parser().read(argv)
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    with cluster_of(options) as cluster:
        for broker, answer in cluster.each_broker(request):
            rack = broker.rack if broker.rack is not None else "null"
            print(f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack} isFenced: false) -> (")
            print(",\n".join(f"\t{_described(each)}" for each in sorted(answer.api_keys, key=lambda each: int(each.api_key))))
            print(")")
    return 0


def _described(each: Any) -> str:
    versions = str(each.max_version) if each.min_version == each.max_version else f"{each.min_version} to {each.max_version}"
    try:
        name = "".join(word.capitalize() for word in ApiKey(each.api_key).name.split("_"))
    except ValueError:
        return f"UNKNOWN({each.api_key}): {versions}"
    return f"{name}({each.api_key}): {versions} [usable: {each.max_version}]"
