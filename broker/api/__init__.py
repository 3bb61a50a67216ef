"""The request handlers, one for each API key, and the routes and dispatcher between them and the socket."""
