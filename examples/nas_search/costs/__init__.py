"""What networks cost: exactly, by linear models, and as measured on a device."""
