"""NumPy's semantics on arrays: operators, promotion, indexing, reductions, changes of shape."""
