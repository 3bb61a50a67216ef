"""The continuous audit: judges appended batches as they appear, and reads each byte once.

`judge` judges one micro-batch, without Spark, together with a few remembered rows that represent the log before it; `checkpoint` stores
these rows; `run` is the stream.
"""
