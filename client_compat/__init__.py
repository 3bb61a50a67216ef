"""Tests, demos and benchmarks that use a broker from outside: through its socket, and as a process that can be killed."""
