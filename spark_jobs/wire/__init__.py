"""Wire mode: logs of any Kafka cluster, read over the network as raw Fetch gives them, batch by batch.

`kafka://host:port[,host:port]` stands where a directory stands. Beside the host, `?command.config=FILE` names a properties file of Kafka's
own client properties (TLS, SASL), and `max.bytes.per.second` slows the reading down.
"""
