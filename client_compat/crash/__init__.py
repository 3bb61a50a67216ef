"""Kills a broker with SIGKILL at random moments while idempotent producers or a share group use it, and then compares the acknowledgements
that the clients received with the log."""
