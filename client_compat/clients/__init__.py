"""The client programs, one directory per language; CONTROL.md is the protocol that all of them speak."""
