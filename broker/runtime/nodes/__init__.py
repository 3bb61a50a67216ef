"""The other nodes of the cluster: links to them, and what is done through the controller."""
