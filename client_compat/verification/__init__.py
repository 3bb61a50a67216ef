"""`ottla verify` over every sample program: the right ones are to hold, each wrong one is to break for its reason."""
