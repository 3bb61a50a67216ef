"""`kafka-get-offsets`: prints the offsets of partitions, one line `TOPIC:PARTITION:OFFSET` for each (Kafka's GetOffsetShell)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import EARLIEST, LATEST, TopicPartition
from ottla.broker.cli.kafka_tools.options import ToolParser, cluster_of, guarded

_TIMES: Final = {"latest": LATEST, "earliest": EARLIEST, "max-timestamp": -3}


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-get-offsets`."""
    made = ToolParser("kafka-get-offsets", "An interactive shell for getting topic-partition offsets.")
    made.cluster_options()
    made.add_argument("--topic", help="a regular expression for topics; default: all")
    made.add_argument("--partitions", help="comma-separated partitions; default: all")
    made.add_argument("--time", default="latest", help="latest, earliest, max-timestamp, or milliseconds")
    made.flag("--exclude-internal-topics")
    return made


@guarded("Error occurred: ", aside=True)
def main(argv: Sequence[str]) -> int:
    """Run `kafka-get-offsets` with the arguments `argv`; return its exit code."""
    options = parser().read(argv)
    try:
        timestamp = _TIMES[options.time] if options.time in _TIMES else int(options.time)
    except ValueError:
        raise CliError(f"Malformed time argument {options.time}. Use latest, earliest, max-timestamp or milliseconds") from None
    wanted = re.compile("|".join((options.topic or ".*").split(",")))
    only = {int(part) for part in (options.partitions or "").split(",") if part.isdecimal()}
    with cluster_of(options) as cluster:
        places = [
            TopicPartition(topic.name or "", partition.partition_index)
            for topic in cluster.topics()
            if wanted.fullmatch(topic.name or "") and not (topic.is_internal and options.exclude_internal_topics)
            for partition in topic.partitions
            if not only or partition.partition_index in only
        ]
        if not places:
            raise CliError("Could not match any topic-partitions with the specified filters")
        found = cluster.offsets(places, timestamp)
    for place in sorted(places):
        print(f"{place.topic}:{place.partition}:{found[place]}")
    return 0
