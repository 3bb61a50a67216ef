"""Consumer groups: who is a member of which generation, and which offsets a group committed. Pure machines: no waiting, no clock, no
files."""
