"""Fixtures for the tests of the audit."""

from tests.support.spark import spark

__all__ = ["spark"]
