"""A container in the place of Apache Kafka's, Confluent's or Bitnami's: their variables, their files, their way to start.

`variables` says which settings the variables stand for, `logins` what variables about users and certificates stand for, `plan` puts a
start together, `program` is what the image's scripts call. Source: KAFKA docker/ and KafkaDockerWrapper; the scripts of Confluent's
kafka-images and of Bitnami's containers, of which only the rules are taken.
"""
