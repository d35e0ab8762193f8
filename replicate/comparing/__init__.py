"""`replicate.compare`: a user's model on one device and over towers, step by step."""
