"""Code that all programs that train classifiers of images share, between `data` and `runs`.

Training and evaluation with Estimators (`training.py`), settings that follow from others
(`settings.py`), and the messages of their commands (`commands.py`).
"""
