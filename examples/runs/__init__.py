"""What training programs have in common, whatever they train.

Their command line (`command_line.py`, `flags.py`, `training_flags.py`), the settings that they keep
(`settings_file.py`), where they compute (`engines.py`, `cluster.py`), checkpoints, summaries, and
how they stop.
"""
