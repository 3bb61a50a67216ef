"""Errors of a connection to a node that requires authentication."""

from ottla.broker.runtime.nodes.link import LinkBroken


class AuthenticationFailed(LinkBroken):
    """The peer rejected this node's credentials, or did not prove its own identity (Kafka's AuthenticationException)."""
