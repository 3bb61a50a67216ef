"""The controller quorum with a single voter: its log, its decisions, and the requests that it serves."""
