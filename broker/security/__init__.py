"""Who may come in: JAAS texts, the mechanisms of SASL, and keys and certificates. Pure but for the reading of files at the start."""
