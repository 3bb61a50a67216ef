"""A demo of exactly-once processing: a consume-transform-produce pipeline counts flights, with and without transactions, while two
instances take over from each other and the broker is killed."""
