"""The process of one pipeline instance. Instance 0 and instance 1 use different client libraries."""

from __future__ import annotations

import asyncio

from client_compat.demo_transactions.instance import CLIENTS, Board, InstanceTask, Pipeline, PipelineInstance
from client_compat.support.workers import log_to


def main(index: int, job: InstanceTask, board: Board) -> None:
    """Run pipeline instance number `index` in this process, until all input is counted. It writes its progress to `board`."""
    log_to(job.client_log)
    asyncio.run(_live(index, job, board))


async def _live(index: int, job: InstanceTask, board: Board) -> None:
    instance: PipelineInstance
    if CLIENTS[index] == "aiokafka":
        from client_compat.demo_transactions.with_aiokafka import AiokafkaInstance  # noqa: PLC0415 # each process needs only its own

        instance = AiokafkaInstance(job)
    else:
        from client_compat.demo_transactions.with_confluent import ConfluentInstance  # noqa: PLC0415 # each process needs only its own

        instance = ConfluentInstance(job)
    try:
        await Pipeline(index, instance, job, board).run()
    finally:
        await instance.close()
