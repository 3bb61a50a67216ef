"""kcat as a client: a program that runs the real kcat for every operation, and reads what it prints."""
