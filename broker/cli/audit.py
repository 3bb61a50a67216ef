"""`ottla audit`, `ottla explain` and `ottla dedup`: they live with the audit, so that `python -m spark_jobs.audit` is the same command."""

from broker.cli.common import ExtraMissing

try:
    from spark_jobs.audit import audit_command as audit
    from spark_jobs.dedup import dedup_command as dedup
    from spark_jobs.explain import explain_command as explain
except ModuleNotFoundError as error:
    raise ExtraMissing("audit", error) from error

__all__ = ["audit", "dedup", "explain"]
