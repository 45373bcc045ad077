"""Primitives that are classes of Python methods, their equations, and rules made of other rules."""
