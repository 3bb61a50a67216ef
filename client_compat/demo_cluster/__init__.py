"""Three brokers that lose their leaders under load: what acks=all keeps, and what acks=1 and an unclean election lose."""
