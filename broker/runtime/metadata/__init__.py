"""The cluster's metadata: where it is decided, written, read back and carried out."""
