"""What clients measure of themselves (KIP-714): who is asked for what, and what came of it. Pure, but for its timers."""
