"""Scripted faults: what to do to which request. Nothing here runs unless a rule was given."""
