"""Request and response of each API, one file per API key. The classes are the specification; `registry` finds them by key."""
