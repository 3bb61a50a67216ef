"""The pure decisions of `ottla gateway`: addresses, rewriting of responses, and the frames of a connection."""
