"""Memory, time and precision of a RevNet's gradients."""
