"""The decisions of `ottla gateway`, a proxy in front of an existing cluster, without its sockets: broker addresses, rewriting of responses,
and the frames of a connection."""
