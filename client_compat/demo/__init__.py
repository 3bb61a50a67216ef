"""The demo: flight data through three clients at once, and the proof that each record is stored exactly once.

Meanwhile the broker drops acknowledgements and is killed.
"""
