"""The programs of docs/queues.md: a consumer group reads each partition in order, a share group's worker finishes each job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.queues.reader import read
from client_compat.queues.worker import RetryLater, work
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import configure
from tests.support.topic_calls import create, produce

JOBS = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with a queue of jobs in one partition."""
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create(client, "jobs")
        configure(client, "workers", share__auto__offset__reset="earliest")
        for number in range(JOBS):
            produce(client, "jobs", b"job %d" % number)
        yield broker


def test_a_reader_gets_every_record_in_order(broker: RunningBroker) -> None:
    assert read(broker.bootstrap, "jobs", JOBS) == [f"0/{number} job {number}" for number in range(JOBS)]


def test_a_worker_finishes_each_job_once_and_retries_what_it_released(broker: RunningBroker) -> None:
    tried: list[str] = []

    def do(job: str) -> None:
        tried.append(job)
        if job == "job 3" and tried.count(job) == 1:
            raise RetryLater
        if job == "job 5":
            raise ValueError(job)

    assert sorted(work(broker.bootstrap, "jobs", do, count=JOBS)) == sorted(f"job {number}" for number in range(JOBS))
    assert (tried.count("job 3"), tried.count("job 5"), len(tried)) == (2, 1, JOBS + 1)
