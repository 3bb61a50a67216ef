from __future__ import annotations

from itertools import repeat

from ottla.broker.api.partition_results import PartitionResults, Result, TopicKey
from ottla.protocol.error_codes import ErrorCode

A, B, KNOWN = ("a", bytes(16)), ("b", bytes(16)), range(3)
OK, TOO_LARGE, UNKNOWN = ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def made(topic: TopicKey, results: list[Result]) -> tuple[str, list[Result]]:
    return topic[0], results


def test_rejected_partitions_precede_those_of_the_coordinator_in_one_entry_of_their_topic() -> None:
    results = PartitionResults()
    results.sort_out(A, [0], KNOWN)
    results.sort_out(B, [1, 9], KNOWN)
    results.sort_out(A, [2], KNOWN)
    assert results.with_errors(iter([OK, TOO_LARGE, OK]), made) == [("b", [(9, UNKNOWN), (1, TOO_LARGE)]), ("a", [(0, OK), (2, OK)])]


def test_a_topic_stays_twice_in_the_response_if_nothing_was_rejected() -> None:
    results = PartitionResults()
    for index in (0, 1):
        results.sort_out(A, [index], KNOWN)
    assert results.with_errors(repeat(OK), made) == [("a", [(0, OK)]), ("a", [(1, OK)])]


def test_a_topic_without_partitions_is_in_the_response_only_if_it_was_rejected() -> None:
    results = PartitionResults()
    results.sort_out(A, [], KNOWN)
    results.reject(B, [], UNKNOWN)
    assert results.with_errors(iter(()), made) == [("b", [])]


def test_each_occurrence_of_a_partition_has_its_own_error() -> None:
    results = PartitionResults()
    results.sort_out(A, [0, 0], KNOWN)
    assert results.with_errors(iter([OK, TOO_LARGE]), made) == [("a", [(0, OK), (0, TOO_LARGE)])]
