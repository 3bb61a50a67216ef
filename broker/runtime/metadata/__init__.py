"""The cluster's metadata: deciding, logging and replaying it, and applying it to this broker."""
