"""The writer of small logs, under the name that the tests know."""

from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, checkpoint, flip, numbered, reheaded

__all__ = ["T0", "PartitionWriter", "checkpoint", "flip", "numbered", "reheaded"]
