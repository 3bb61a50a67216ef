"""Three brokers that lose their leaders under load: what acks=all keeps, what acks=1 and an unclean election lose, watched and judged."""
