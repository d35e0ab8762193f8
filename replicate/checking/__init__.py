"""`python -m replicate check-gpus`: whether the devices of a machine do what they should.

Trains small models on one device and over towers, reads where operations ran, times the ways to
gather gradients, and prints a report. Nothing of the library imports this package but its command
line.
"""
