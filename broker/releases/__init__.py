"""The tables of Apache Kafka's releases: APIs with their versions, features, and settings with their defaults.

`tables/` has one JSON file for each release, recorded from its real broker by `make releases`. The newest file is complete; every other one
has only the differences from the next newer release, so that a file reads as what that newer release changed.

Invariants:
- A table is data about a broker's listener. What follows from it is decided where it is used.
- The files are read when a table is requested; a broker that does not imitate a release reads none.
"""
