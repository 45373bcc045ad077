"""Refs: cells that hold an array, and functions that take them. Programs know nothing of them."""
