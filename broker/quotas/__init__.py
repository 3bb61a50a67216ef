"""Client quotas: measured usage and throttle times. Pure: time is an argument."""
