"""Replaces the container images of Apache Kafka, Confluent and Bitnami: supports their variables, files and start scripts.

`variables` translates environment variables to settings, `logins` those about users and certificates; `plan` combines them into a start;
`program` is what the image's scripts call. Sources: KAFKA docker/ and KafkaDockerWrapper; the rules of the scripts in Confluent's
kafka-images and Bitnami's containers.
"""
