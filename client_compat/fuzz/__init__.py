"""Hostile frames and batches against a live broker, while well-behaved clients beside them must notice nothing."""
