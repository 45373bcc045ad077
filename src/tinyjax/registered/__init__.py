"""The standard vocabulary: primitives by name, and JAX's spelling of them. `registered.everything` loads all of it."""
