"""kcat as a client: a program that runs kcat for every operation and parses its output."""
