"""The continuous audit: judges what is appended to logs as it appears, and never reads a byte twice.

`judge` decides, over one micro-batch and what is remembered (no Spark in it); `memory` keeps what is remembered; `run` is the stream.
"""
