"""One replica of a partition, and what it decides: who leads, how far every replica's log reaches, what is committed, who waits for it."""
