"""Programs to copy from: a producer, a stream and a consumer for each of aiokafka, confluent-kafka and kafka-python, right by default.

`--mistake NAME` switches in one wrong habit (`mistakes.MISTAKES`). `ottla verify` examines them: docs/verify.md, `make verify-samples`.
"""
