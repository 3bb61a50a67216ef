"""Runs `ottla verify` on every sample program: a correct one has to pass; one with a mistake has to break the mistake's guarantee."""
