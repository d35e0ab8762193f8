"""Fronts of accuracy over cost: networks of several searches beside random ones that cost as much.

All networks are trained alone, in the same way. The *kinds* of networks are "found" and "random".
"""
