"""Digits on a TensorFlow cluster: `train.py` is what a task runs, `local.py` starts all of them."""
