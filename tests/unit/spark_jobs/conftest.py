"""Fixtures of the audit's tests."""

from tests.support.spark import spark

__all__ = ["spark"]
