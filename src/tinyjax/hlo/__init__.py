"""StableHLO text: `lower` writes a program as a module, by rules in tables that anyone can add to."""

from tinyjax.exports import publish_later

publish_later(__name__)
