"""What the controller decides about the cluster, one file for each kind of decision. Pure: records out, nothing changed."""
