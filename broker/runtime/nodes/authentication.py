"""What a link may meet at a node that asks who dials."""

from ottla.broker.runtime.nodes.link import LinkBroken


class AuthenticationFailed(LinkBroken):
    """The peer did not let this node in, or could not prove who it is (KAFKA AuthenticationException)."""
