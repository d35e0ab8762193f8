"""Shows how a model would be partitioned before it is trained: `python -m replicate plan`."""
