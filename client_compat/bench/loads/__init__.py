"""The benchmark's loads. Each load sends requests to one broker over sockets and returns figures. No load depends on the kind of broker."""
