"""Programs in files and pickles, and their hash."""
