"""Layers of networks that share weights: masks, branches that run only if drawn, and their penalty.

The concepts and the names of layers are those of TuNAS (Bender, Liu et al., CVPR 2020).
"""
