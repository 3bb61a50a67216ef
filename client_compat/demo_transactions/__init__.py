"""Consume, transform, produce over the flights, with and without transactions, while instances fight and the broker is killed."""
