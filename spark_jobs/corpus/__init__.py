"""Logs with known findings, to test the audit: small logs with one planted anomaly each, random logs with several, and unusual but legal
logs.

`python -m ottla.spark_jobs.corpus` judges all of them and prints a table; `python -m ottla.spark_jobs.corpus DIR` only writes them, for
other tools.
"""

from __future__ import annotations

from typing import Final

from ottla.spark_jobs.corpus.batches import BATCHES
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.groups import GROUPS
from ottla.spark_jobs.corpus.legal import LEGAL
from ottla.spark_jobs.corpus.random_logs import RANDOM_LOGS
from ottla.spark_jobs.corpus.replays import REPLAYS
from ottla.spark_jobs.corpus.replicas import REPLICAS
from ottla.spark_jobs.corpus.shares import SHARES
from ottla.spark_jobs.corpus.side_files import SIDE_FILES
from ottla.spark_jobs.corpus.transactions import TRANSACTIONS

CASES: Final[dict[str, Case]] = BATCHES | TRANSACTIONS | GROUPS | SHARES | SIDE_FILES | LEGAL | RANDOM_LOGS | REPLAYS | REPLICAS
