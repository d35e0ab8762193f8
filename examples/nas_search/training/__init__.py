"""Training a network alone, and measuring how accurate it is."""
