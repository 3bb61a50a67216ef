"""What every layer of the broker may know: settings, limits, the clock, timers, and two ways to answer."""
