"""What a RevNet's gradients cost in memory and time, and how exact they are."""
