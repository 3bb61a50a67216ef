"""The continuous audit: judges appended batches as they appear, and reads each byte once.

`judge` judges one micro-batch after the remembered rows, without Spark; `memory` stores the remembered rows; `run` is the stream.
"""
