"""The request handlers, one for each API key; the routes that assign requests to handlers; and the dispatcher, which decodes a request,
calls its handler and encodes the response."""
