"""Authentication of clients and TLS: JAAS configuration, SASL mechanisms, keys and certificates. No code here uses the network."""
