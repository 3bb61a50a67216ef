"""The only layer that waits: durable appends, long polls, timers, and work in the background."""
