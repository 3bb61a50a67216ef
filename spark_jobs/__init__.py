"""The audit: proves or disproves from a Kafka log's own files that no record was written twice or lost, and that every transaction is
committed or aborted as a whole."""
