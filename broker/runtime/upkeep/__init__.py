"""What time brings: timers on the loop, and work in the background."""
