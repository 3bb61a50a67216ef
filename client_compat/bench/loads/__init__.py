"""The loads: each drives one broker through a socket and gives figures. None knows which broker it drives."""
