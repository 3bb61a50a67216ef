"""`ottla audit`: the audit's own command; it lives with the audit so that `python -m spark_jobs.audit` is the same."""

from spark_jobs.audit import audit_command as audit

__all__ = ["audit"]
