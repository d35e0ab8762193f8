"""Model functions of every make, each trained on one device and on towers, and compared."""
