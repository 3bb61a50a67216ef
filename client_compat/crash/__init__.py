"""SIGKILL at random instants under idempotent load, and then the clients' acknowledgements against the log."""
