"""The loads. Each sends requests to one broker over sockets and returns figures; none depends on the kind of broker."""
