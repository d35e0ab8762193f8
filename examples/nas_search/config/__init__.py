"""The settings of searches and trainings: flags, presets, and params.json."""
