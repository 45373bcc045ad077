"""What values are, and what applying a primitive to them means. `tinyjax.interpreters` exports what is public of it."""
