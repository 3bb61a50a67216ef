"""The client programs, one directory for each language. CONTROL.md specifies their protocol."""
