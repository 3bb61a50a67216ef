"""Programs that see a broker as its users do: through a socket, and as a process that can be killed."""
