"""The tables of Apache Kafka's releases: APIs with their versions, features, and settings with their defaults.

`tables/` has one JSON file for each release, recorded from its real broker by `make releases`. The newest file is complete. Every other
file has only the differences from the next newer release, so that it shows what that newer release changed.

Invariants:
- A table contains only what the broker of the release reported to a client. How Ottla imitates this is decided in `release_behaviour`.
- The files are read when a table is requested; a broker that does not imitate a release reads none.
"""
