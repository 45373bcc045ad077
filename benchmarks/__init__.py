"""How long tinyjax takes, as a ratio of what jax takes for the same work in the same process."""
