"""`ottla audit`, `ottla explain` and `ottla dedup`. They are defined in the audit package, so that spark-submit runs the same commands."""

from ottla.broker.cli.common import ExtraMissing

try:
    from ottla.spark_jobs.audit import audit_command as audit
    from ottla.spark_jobs.dedup import dedup_command as dedup
    from ottla.spark_jobs.explain import explain_command as explain
except ModuleNotFoundError as error:
    raise ExtraMissing("audit", error) from error

__all__ = ["audit", "dedup", "explain"]
