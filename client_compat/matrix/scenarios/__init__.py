"""All scenarios, by area: importing this registers them."""

from client_compat.matrix.scenario import REGISTRY
from client_compat.matrix.scenarios import produce

__all__ = ["REGISTRY", "produce"]
