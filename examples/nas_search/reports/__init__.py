"""What a search found, in figures, words and pictures, and as one page."""
