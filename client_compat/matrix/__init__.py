"""The compatibility matrix: the same scenarios through real clients of several languages, against this broker, Apache Kafka and tansu."""
