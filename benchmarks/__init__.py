"""Benchmarks of `replicate` against the other ways to train an Estimator on several devices."""
