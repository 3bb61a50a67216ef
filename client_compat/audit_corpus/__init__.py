"""`make audit-corpus`: verify `ottla audit` with logs whose faults are known: generated logs, and logs that real brokers wrote."""
