"""The client programs of the compatibility matrix, one directory for each language. CONTROL.md specifies the control protocol, through
which the matrix gives them requests."""
