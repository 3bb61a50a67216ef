"""The audit on a real standalone Spark cluster: one master and two workers on loopback, the packaged wheel, and proof of who did what."""
