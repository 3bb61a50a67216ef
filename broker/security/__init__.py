"""Authentication: JAAS configuration, SASL mechanisms, keys and certificates. Pure, except that files are read at the start."""
