"""Scripted faults: rules that drop, delay, repeat or fail matching requests. Without rules, none of this runs."""
