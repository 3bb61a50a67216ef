"""A demo of three brokers whose leaders are killed under load: no acknowledged record is lost with acks=all, and some are lost with acks=1
or by an unclean election."""
