"""The audit as a Python API: judge log directories and clusters, and read logs as Arrow record batches or as a Spark data source.

The names here are stable (docs/public-api.md). Each is imported on first access and needs the extra `audit`; `KafkaLogSource` needs
`spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla._lazy import Extra, exports

__all__ = ["CannotJudge", "DirectoryVerdict", "Filters", "Finding", "KafkaLogSource", "RuleResult", "Verdict", "Wire", "audit", "read"]

if TYPE_CHECKING:
    from ottla.spark_jobs.audit import audit
    from ottla.spark_jobs.session import CannotJudge
    from ottla.spark_jobs.source import KafkaLogSource
    from ottla.spark_jobs.tables import read
    from ottla.spark_jobs.tables.filters import Filters
    from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict
    from ottla.spark_jobs.wire.sources import Wire
else:  # type checkers do not see this __getattr__, with which they would accept any name
    _NEEDS = Extra("audit", "pyarrow")
    __getattr__, __dir__ = exports(
        __name__,
        {
            "CannotJudge": "spark_jobs.session",
            "DirectoryVerdict": "spark_jobs.verdict",
            "Filters": "spark_jobs.tables.filters",
            "Finding": "spark_jobs.verdict",
            "KafkaLogSource": "spark_jobs.source",
            "RuleResult": "spark_jobs.verdict",
            "Verdict": "spark_jobs.verdict",
            "Wire": "spark_jobs.wire.sources",
            "audit": "spark_jobs.audit",
            "read": "spark_jobs.tables",
        },
        {**dict.fromkeys(__all__, _NEEDS), "KafkaLogSource": Extra("spark", "pyspark")},
    )
