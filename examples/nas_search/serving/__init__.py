"""Exports for products: a SavedModel of a trained network, and a TensorFlow Lite file."""
