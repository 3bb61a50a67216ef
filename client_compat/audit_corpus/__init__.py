"""`make audit-corpus`: verify `ottla audit` with logs of known content: generated anomalies, and logs that real brokers and clients
wrote.
"""
