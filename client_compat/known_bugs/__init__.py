"""Known bugs of Kafka's clients and protocol that break exactly-once, each reproduced in a second or two: `python -m
client_compat.known_bugs [NAME]`."""
