"""One file per API key: its request and response. The class is the specification; `ottla.protocol.messages.registry` finds it by key."""
