"""Costs of networks: exact ones, and linear models that are fitted and kept in files."""
