"""Client metrics (KIP-714): subscriptions, and the metrics that clients push. No I/O; time comes from a clock and timers that are passed
in."""
