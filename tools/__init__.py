"""What the developers of `replicate` run, and no user does."""
