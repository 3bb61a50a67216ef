"""Hostile frames and batches against a running broker, while normal clients of the same broker must not be affected."""
