"""How a dynamic loss scale goes on from step to step, in plain Python."""

import numpy as np

NOT_FINITE = (np.nan, np.inf, -np.inf)


def after(scale, count, is_finite, period, multiplier):
    """Returns scale and count after a step."""
    if not is_finite:
        return max(np.float32(scale) / np.float32(multiplier), np.float32(1)), 0
    if count + 1 < period:
        return np.float32(scale), count + 1
    with np.errstate(over="ignore"):
        raised = np.float32(scale) * np.float32(multiplier)
    return (raised if np.isfinite(raised) else np.float32(scale)), 0
