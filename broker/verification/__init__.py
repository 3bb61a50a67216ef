"""The verification of `ottla verify`: somebody's program as a black box, a broker that fails on purpose, and a verdict per guarantee."""
