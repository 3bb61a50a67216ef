"""The controller's decisions about the cluster, one file per kind of decision. Pure: a decision returns records and changes nothing."""
