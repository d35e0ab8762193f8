"""What training programs have in common, whatever they train.

Their command line (`program.py`, `flags.py`, `common_flags.py`), the settings that they keep
(`settings_file.py`), where they compute (`engines.py`, `cluster.py`), checkpoints, summaries, and
how they stop.
"""
