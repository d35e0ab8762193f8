"""Code that all training programs share.

The command line (`command_line.py`, `flags.py`, `training_flags.py`), settings in files
(`settings_file.py`), devices and clusters (`engines.py`, `cluster.py`), checkpoints, summaries, and
how programs stop.
"""
