"""Sample programs: a producer, a stream and a consumer for aiokafka, confluent-kafka and kafka-python, with exactly-once by default.

`--mistake NAME` enables one common mistake (`mistakes.MISTAKES`). `ottla verify` checks the programs: docs/verify.md, `make
verify-samples`.
"""
