"""The only package that touches private TensorFlow names or depends on TensorFlow's version.

`graph` holds what the towers need of a graph under construction; `estimator` is the Estimator API.
"""
