"""The two programs of docs/queues.md: a consumer group reads jobs from a topic, and a share group processes jobs as a queue."""
