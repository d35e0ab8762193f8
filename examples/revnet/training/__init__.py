"""Training a RevNet on every engine, and measuring how accurate it is."""
