"""What networks cost: exactly, and by linear models that are fitted and kept in files."""
