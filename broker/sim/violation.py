"""The exception that a judge of a simulation raises."""


class Violation(AssertionError):
    """An invariant does not hold."""
