"""Tests of what holds for all examples of a kind, by random ones.

Each is run twice: as part of the usual tests, of the same examples every time, and by
`make nightly`, of ten times as many that are others every time; a failure prints how to repeat it.
"""

import os
import tempfile

import hypothesis
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate

# Keeps what Hypothesis writes out of the repository; it reads this when it writes.
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "hypothesis")
)
PER_RUN, PER_NIGHT = 200, 2_000


def session(num_devices):
    """Returns a session on so many CPU devices, which runs graphs as they are.

    To optimize a graph that is run once takes longer than to run it.
    """
    config = replicate.session_config(contract.device_names(num_devices))
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.Session(config=config)


def holds(*strategies, marks=(), share=1.0):
    """Makes a test of a function of what `strategies` draw.

    Args:
        *strategies: Hypothesis strategies, one for each argument of the function.
        marks: Marks of the run that is not nightly.
        share: Of `PER_RUN`, what that run tries: where examples are slow.
    """
    runs = [
        pytest.param(PER_RUN, id="quick", marks=marks),
        pytest.param(PER_NIGHT, id="nightly", marks=pytest.mark.nightly),
    ]

    def decorate(check):
        @pytest.mark.parametrize("count", runs)
        def test(count):
            is_quick = count == PER_RUN
            settings = hypothesis.settings(
                max_examples=int(count * share) if is_quick else count,
                derandomize=is_quick,
                print_blob=not is_quick,
                deadline=None,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            settings(hypothesis.given(*strategies)(check))()

        test.__doc__ = check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
