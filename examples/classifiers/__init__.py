"""What programs that train classifiers of images have in common, between `data` and `runs`.

How they are trained and measured with Estimators (`training.py`), what follows from their settings
(`settings.py`), and what their commands say (`commands.py`).
"""
