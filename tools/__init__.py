"""Programs for the developers of `replicate`, not for users."""
