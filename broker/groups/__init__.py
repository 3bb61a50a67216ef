"""Consumer groups: members, generations, assignments and committed offsets. Pure state machines: no waiting, no clock, no files."""
