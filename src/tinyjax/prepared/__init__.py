"""What repeated calls are prepared for."""
