"""The standard vocabulary: the primitives that programs name, and JAX's spelling of them."""
