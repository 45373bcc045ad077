"""tinyjax."""
