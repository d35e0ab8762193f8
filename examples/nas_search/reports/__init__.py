"""Results of a search, in figures, words and pictures, and as one page."""
