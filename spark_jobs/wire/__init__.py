"""Wire mode: reads the logs of any Kafka cluster over the network, as the raw batches of Fetch responses.

A URL `kafka://host:port[,host:port]` is used in place of a directory. `?command.config=FILE` names a file of Kafka's client properties
(TLS, SASL), and `max.bytes.per.second` limits the read rate.
"""
