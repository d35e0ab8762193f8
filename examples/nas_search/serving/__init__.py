"""Exports for products: a SavedModel of a trained network, a model card, a TensorFlow Lite file."""
