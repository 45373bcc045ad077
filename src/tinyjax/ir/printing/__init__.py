"""How programs are shown."""
