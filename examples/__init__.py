"""Programs that show what `replicate` does; each is importable and tested."""
