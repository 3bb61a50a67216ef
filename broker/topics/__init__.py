"""Topics, their settings, and producer-id blocks: machines over the records of the metadata log."""
