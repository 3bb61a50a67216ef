"""Re-exports the writer of small logs for tests."""

from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, checkpoint, flip, numbered, reheaded

__all__ = ["T0", "PartitionWriter", "checkpoint", "flip", "numbered", "reheaded"]
