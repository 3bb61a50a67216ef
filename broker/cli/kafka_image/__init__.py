"""Replaces the container images of Apache Kafka, Confluent and Bitnami: supports their variables, files and start scripts.

`variables` translates environment variables to settings, `logins` those about users and certificates; `plan` combines the settings;
`program` is the command that the image's scripts run. Sources: KAFKA docker/, KafkaDockerWrapper; the rules of the scripts in Confluent's
kafka-images and Bitnami's containers.
"""
