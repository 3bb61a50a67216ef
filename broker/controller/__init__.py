"""The controller's decisions about the cluster, one file per kind of request or event. Pure (no I/O, clock or randomness of its own): a
decision returns the metadata records to write and the response, and changes nothing.
"""
