"""`python -m replicate check-gpus`: checks that the devices of a machine work as they should.

Trains small models on one device and over towers, reads where operations ran, times the ways to sum
gradients, and prints a report. Only the library's command line imports this package.
"""
