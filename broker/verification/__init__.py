"""The verification of `ottla verify`: a program as a black box, a broker that fails on purpose, and a verdict for each guarantee."""
