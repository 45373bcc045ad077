"""The thin layer between Python functions and contexts: arrays, frames, `bind`, trees."""

from tinyjax.tracing import marked

__all__ = ["marked"]
