"""The demo: three clients send flight data at once, while the broker drops acknowledgements and is killed. Afterwards two consumers and the
audit check that each record is stored exactly once."""
