"""One handler per API key, and what lies between them and the socket: routes and dispatch."""
