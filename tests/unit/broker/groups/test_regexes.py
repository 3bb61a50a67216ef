from __future__ import annotations

import logging

import pytest

from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.regexes import NAMES_PER_SLICE, REFRESH_MIN_INTERVAL_MS, Resolution
from ottla.protocol.consumer_group_log import ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
from tests.support.consumer_groups import WALL_MS, FakeTopics, GroupsDriver

REGEX_TYPE = b"\0\x10"


def waiting_group(**config: int) -> GroupsDriver:
    """A group whose member subscribes to a regular expression that is not resolved yet."""
    driver = GroupsDriver(FakeTopics(t1=1, t2=1, u=1), **config)
    driver.resolves = False
    driver.join("a", (), topic_regex="t.*")
    return driver


def resolved_group(**config: int) -> GroupsDriver:
    driver = waiting_group(**config)
    assert driver.resolve()
    driver.beat("a", 1)
    return driver


def is_planned(driver: GroupsDriver) -> bool:
    """Return whether a heartbeat plans a resolution of regular expressions."""
    driver.beat("a", driver.member("a").epoch)
    return driver.resolve()


def test_a_group_has_one_resolution_at_a_time() -> None:
    driver = waiting_group()
    running = driver.machine.next_resolution("g")
    assert running is not None
    driver.beat("a", 1)
    assert driver.machine.next_resolution("g") is None
    driver.machine.end_resolution(running, driver.now)
    driver.beat("a", 1)
    assert driver.machine.next_resolution("g") is not None, "the other one ended without a result"


def test_a_group_without_a_regular_expression_resolves_nothing() -> None:
    driver = GroupsDriver()
    driver.join("a")
    assert driver.machine.next_resolution("g") is None


def test_a_resolution_is_planned_again_after_the_minimum_interval() -> None:
    driver = resolved_group()
    driver.topics.set("t3", 1)
    driver.mono_ms += REFRESH_MIN_INTERVAL_MS
    assert not is_planned(driver)
    driver.mono_ms += 1
    assert is_planned(driver)
    assert driver.group.resolved == {"t.*": frozenset({"t1", "t2", "t3"})}


def test_a_topic_that_grows_or_is_deleted_plans_no_resolution() -> None:
    driver = resolved_group()
    driver.mono_ms += REFRESH_MIN_INTERVAL_MS + 1
    driver.topics.set("t1", 2)
    driver.topics.set("t2", 0)
    assert not is_planned(driver)


def test_a_resolution_is_planned_after_the_refresh_interval() -> None:
    driver = resolved_group(regex_refresh_interval_ms=600_000)
    driver.mono_ms += 600_000
    assert not is_planned(driver)
    driver.mono_ms += 1
    assert is_planned(driver)


def test_a_resolution_that_finds_nothing_new_is_written_and_changes_no_epoch() -> None:
    driver = resolved_group()
    driver.mono_ms += REFRESH_MIN_INTERVAL_MS + 1
    driver.topics.set("other", 1)
    epoch, written = driver.group.epoch, len(driver.log)
    assert is_planned(driver)
    assert [key[:2] for key, _ in driver.log[written:]] == [REGEX_TYPE]
    assert driver.group.epoch == epoch
    assert not is_planned(driver), "the time of this resolution counts"


def test_a_loaded_group_is_resolved_again() -> None:
    driver = resolved_group()
    driver.restart()
    assert not is_planned(driver), "the time of the last resolution was read back"
    driver.mono_ms += REFRESH_MIN_INTERVAL_MS + 1
    assert is_planned(driver)
    assert not is_planned(driver)


def test_a_resolution_with_a_failed_write_is_planned_again() -> None:
    driver = resolved_group()
    driver.mono_ms += REFRESH_MIN_INTERVAL_MS + 1
    driver.topics.set("t3", 1)
    driver.beat("a", 2)
    driver.refuses_writes = True
    assert driver.resolve()
    driver.refuses_writes = False
    assert is_planned(driver)
    assert driver.group.resolved == {"t.*": frozenset({"t1", "t2", "t3"})}


def test_an_unused_regular_expressions_resolution_is_not_written() -> None:
    driver = waiting_group()
    driver.join("b", ("u",))
    driver.beat("a", -1)
    written = len(driver.log)
    assert driver.resolve()
    assert len(driver.log) == written


def test_a_deleted_groups_resolution_changes_nothing() -> None:
    driver = waiting_group()
    driver.beat("a", -1)
    driver.take(driver.machine.delete_group("g").records, [])
    assert driver.resolve()
    assert driver.machine.groups == {}


def test_names_are_matched_in_slices_and_need_describe_permission() -> None:
    topics = FakeTopics(**{f"t{index:04}": 1 for index in range(2 * NAMES_PER_SLICE)})
    resolution = Resolution("g", ("t.*", "t0001"), lambda name: name != "t0000")
    slices = 0
    for _ in resolution.steps(topics, WALL_MS):
        assert resolution.found == {}
        slices += 1
    assert slices == 4
    assert resolution.found == {"t.*": frozenset(topics.names()) - {"t0000"}, "t0001": frozenset({"t0001"})}


def test_an_expression_with_many_instructions_is_matched_with_few_names_in_a_slice() -> None:
    topics = FakeTopics(**{f"t{index}": 1 for index in range(10)})
    resolution = Resolution("g", ("(x?){500}" * 5 + "t.*",))
    assert len(list(resolution.steps(topics, WALL_MS))) == 10
    assert resolution.found == {resolution.regexes[0]: frozenset(topics.names())}


def test_each_expression_is_compiled_in_a_separate_slice() -> None:
    assert len(list(Resolution("g", ("t", "u", "v")).steps(FakeTopics(), WALL_MS))) == 3


def test_an_invalid_regular_expression_in_the_log_matches_no_topic(caplog: pytest.LogCaptureFixture) -> None:
    resolution = Resolution("g", ("(", "t"))
    with caplog.at_level(logging.ERROR):
        assert list(resolution.steps(FakeTopics(t=1), WALL_MS)) == [None, None]
    assert resolution.found == {"(": frozenset(), "t": frozenset({"t"})}
    assert "group g" in caplog.text


def test_a_resolution_written_by_kafka_is_refreshed_by_its_time() -> None:
    driver = resolved_group()
    key = ConsumerGroupRegularExpressionKey("g", "t.*")
    old = ConsumerGroupRegularExpressionValue(["t1"], 7, driver.now.wall_ms - 600_001)
    driver.take([GroupRecord(key, old)], [])
    assert is_planned(driver)
    assert driver.group.resolved == {"t.*": frozenset({"t1", "t2"})}
