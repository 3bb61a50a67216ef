"""The exception that a judge of a simulation raises."""


class Violation(AssertionError):
    """An invariant of the simulated cluster does not hold; the text says which one, and where."""
