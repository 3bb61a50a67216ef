"""A crash at any point of creating, growing or deleting a topic leaves it whole or deleted. Every disk operation is tried as the last one,
with the page cache surviving (SIGKILL) and without (power loss)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.controller.create_topics import MorePartitions, NewTopic
from ottla.broker.controller.delete_topics import TopicRef
from ottla.broker.core.rejected import Rejected
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import FsyncFailed
from tests.support.topic_dirs import TopicDir, failing_after

Operation = Callable[[TopicDir], Awaitable[bool]]
CALLS_MAX = 400
"""Far more disk operations than any of these needs; the test asserts that it needs fewer."""


async def create(opened: TopicDir) -> bool:
    (created,) = await opened.decisions.create_topics([NewTopic("new", 3, configs=[("retention.ms", "5")])])
    return created.error is None


async def create_and_write(opened: TopicDir) -> bool:
    """Create a topic and write to it; the steps include a kill between the metadata record and the directory, and within the directory."""
    if not await create(opened):
        return False
    try:
        opened.append("new", 1)
        opened.partitions.get("new", 1).log.flush()
    except (Rejected, FsyncFailed):
        return False
    return True


async def grow(opened: TopicDir) -> bool:
    ((_, error),) = await opened.decisions.create_partitions([MorePartitions("old", 4)])
    return error is None


async def delete(opened: TopicDir) -> bool:
    (deleted,) = await opened.decisions.delete_topics([TopicRef("old")])
    return deleted.error is None


async def delete_and_create_again(opened: TopicDir) -> bool:
    return await delete(opened) and (await opened.decisions.create_topics([NewTopic("old", 1)]))[0].error is None


async def prepare(path: Path, files: MemoryFiles) -> TopicDir:
    opened = TopicDir(path, files=files)
    await opened.decisions.create_topics([NewTopic("old", 2), NewTopic("bystander", 1)])
    for topic, index in [("old", 0), ("old", 1), ("bystander", 0)]:
        opened.append(topic, index)
        opened.partitions.get(topic, index).log.flush()
    files.sync_dir(path)
    return opened


async def crash_after(path: Path, operation: Operation, calls: int, *, power: bool) -> tuple[bool, bool, TopicDir]:
    """Run the operation on a disk that fails after `calls` calls; return whether the operation succeeded, whether the disk failed, and the
    directory opened again."""
    files = MemoryFiles()
    opened = await prepare(path, files)
    files.on_call = failing_after(calls)
    task = asyncio.ensure_future(operation(opened))
    await asyncio.wait([task, opened.failed], return_when=asyncio.FIRST_COMPLETED)
    died = False
    try:
        files.on_call("probe", path)
    except OSError:
        died = True
    try:
        succeeded = task.done() and task.result()
    except (Rejected, FsyncFailed):
        succeeded = False
    task.cancel()
    files.heal()
    opened.crash()
    if power:
        files.power_loss()
    return succeeded, died, TopicDir(path, files=files)


def check_whole(opened: TopicDir) -> None:
    """Check that every topic of the catalog is served with all partitions, and that no other directory is left."""
    expected = [(topic.name, index) for topic in opened.catalog.topics() for index in sorted(topic.partitions)]
    assert opened.served() == sorted(expected)
    assert opened.append("bystander", 0) == 1


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power loss"])
@pytest.mark.parametrize("operation", [create, create_and_write, grow, delete, delete_and_create_again])
async def test_crash_at_any_disk_operation_leaves_a_topic_complete_or_absent(tmp_path: Path, operation: Operation, power: bool) -> None:
    outcomes = set()
    for calls in range(CALLS_MAX):
        succeeded, died, opened = await crash_after(tmp_path, operation, calls, power=power)
        check_whole(opened)
        outcomes.add(check_outcome(opened, operation, succeeded))
        opened.crash()
        if succeeded and not died:
            break
    else:
        pytest.fail(f"{operation.__name__} did not end within {CALLS_MAX} disk operations")
    assert outcomes >= {"before", "after"}


def check_outcome(opened: TopicDir, operation: Operation, succeeded: bool) -> str:
    names = opened.catalog_names
    partitions = [index for topic, index in opened.served() if topic == "old"]
    if operation is create_and_write:
        after = "new" in names
        if after:
            appended = [opened.append("new", index) for index in range(3)]
            assert appended == [0, 1, 0] if succeeded else appended in ([0, 0, 0], [0, 1, 0])
    elif operation is create:
        after = "new" in names
        if after:
            assert opened.catalog.configs(ResourceType.TOPIC, "new") == {"retention.ms": "5"}
            assert [opened.append("new", index) for index in range(3)] == [0, 0, 0]
    elif operation is grow:
        after = partitions == [0, 1, 2, 3]
        assert after or partitions == [0, 1]
        assert opened.append("old", 0) == 1
    elif operation is delete:
        after = "old" not in names
        if not after:
            assert [opened.append("old", index) for index in range(2)] == [1, 1]
    else:
        after = partitions == [0]
        if after:
            assert opened.append("old", 0) == 0, "a new topic shows records of the deleted one"
        elif partitions:
            assert [opened.append("old", index) for index in range(2)] == [1, 1]
    assert after or not succeeded, "what was answered as done is not"
    return "after" if after else "before"


async def test_recreated_topic_does_not_use_the_old_topics_log_start(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("old", 1)])
    for _ in range(5):
        opened.append("old", 0)
    opened.partitions.get("old", 0).log.delete_records_before(5)
    opened.log_dir.log_start_checkpoint()()
    assert await delete_and_create_again(opened)
    assert [opened.append("old", 0) for _ in range(3)] == [0, 1, 2]
    opened.crash()
    again = TopicDir(tmp_path)
    log = again.partitions.get("old", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    again.crash()
