"""Reading printed programs."""
