"""What a judge of a simulation raises."""


class Violation(AssertionError):
    """Something is not as it must be."""
