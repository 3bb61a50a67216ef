"""The audit: proves or disproves from a Kafka log's own files that nothing was written twice, lost or torn."""
