"""The transformations, on Python functions of trees of arrays."""
