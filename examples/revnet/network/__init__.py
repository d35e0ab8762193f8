"""The network of residual units that can be inverted, and its gradients by hand."""
