"""The exception that the checks of a simulation raise."""


class Violation(AssertionError):
    """An invariant of the simulated cluster does not hold; the text says which one, and where."""
