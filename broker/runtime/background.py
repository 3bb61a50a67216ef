"""Which work happens in the background, and how often: each job with the settings that give its interval."""

from __future__ import annotations
