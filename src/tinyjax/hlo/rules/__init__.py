"""Lowering rules, a file for each family of primitives. The tables import one when it is needed: `hlo.tables`."""
