"""Errors about functions and values that are traced, in words: what was wrong, and what to write instead."""
