"""The demo: flight data through three clients at once, with a broker that drops acknowledgements and is killed, and the proof of
exactly-once.
"""
