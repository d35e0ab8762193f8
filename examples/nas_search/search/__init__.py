"""A search: its settings and costs, its step, what runs it, and what is seen of it meanwhile."""
