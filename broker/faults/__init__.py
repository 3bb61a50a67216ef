"""Scripted faults: rules that drop, delay, repeat or fail requests, so that users can test their clients. If no rule is loaded, the broker
does not run this code."""
