"""Runs the suites that `tensorflow_estimator` ships, over two towers; all replicated.

They are written for authors of Estimators like the canned ones. Here the Estimators are the
canned ones themselves, but each `model_fn` is replicated behind their back; nothing is wrapped.

    python tests/compat/suites_program.py OUT    writes a dict of what failed, and how, as JSON
"""

import functools
import json
import sys
import unittest

import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import estimator as estimators
from tensorflow_estimator.python.estimator.canned import (
    dnn,
    dnn_linear_combined,
    dnn_testing_utils,
    linear,
    linear_testing_utils,
)
from tensorflow_estimator.python.estimator.canned.v1 import (
    dnn_testing_utils_v1,
    linear_testing_utils_v1,
)

import replicate

DEVICES = ["/cpu:0", "/cpu:1"]
# Names of arguments of the wide-and-deep Estimators, for each half of them.
DEEP = {
    "hidden_units": "dnn_hidden_units",
    "feature_columns": "dnn_feature_columns",
    "optimizer": "dnn_optimizer",
}
WIDE = {
    "feature_columns": "linear_feature_columns",
    "optimizer": "linear_optimizer",
    "sparse_combiner": "linear_sparse_combiner",
    "partitioner": "input_layer_partitioner",
}


def replicate_everything():
    """Lets every Estimator, and the sessions that tests open, have two towers."""
    make = estimators.Estimator.__init__

    def make_replicated(
        self, model_fn, model_dir=None, config=None, params=None, warm_start_from=None
    ):
        config = config or replicate.estimator.RunConfig()
        sessions = tf.ConfigProto()
        sessions.CopyFrom(config.session_config or tf.ConfigProto())
        sessions.MergeFrom(replicate.session_config(DEVICES))
        make(
            self,
            replicate.replicate_model_fn(model_fn, devices=DEVICES),
            model_dir,
            config.replace(session_config=sessions),
            params,
            warm_start_from,
        )

    estimators.Estimator.__init__ = make_replicated
    session = functools.partial(
        tf.train.MonitoredTrainingSession, config=replicate.session_config(DEVICES)
    )
    for module in (tf, tf2.compat.v1):
        module.train.MonitoredTrainingSession = session


def half_of(cls, names):
    """Returns a function that makes a wide-and-deep Estimator of one half alone."""
    takes_partitioners = not cls.__name__.endswith("V2")

    def make(**kwargs):
        if not takes_partitioners:
            kwargs = {k: v for k, v in kwargs.items() if k != "partitioner"}
        return cls(**{names.get(key, key): value for key, value in kwargs.items()})

    return make


def cases():
    """Yields a class of tests, a name for it, and what its tests are given."""
    combined = dnn_linear_combined
    for version, of_deep, of_wide in (
        ("V2", dnn_testing_utils, linear_testing_utils),
        ("", dnn_testing_utils_v1, linear_testing_utils_v1),
    ):
        classifier, regressor = (
            getattr(combined, f"DNNLinearCombined{kind}{version}")
            for kind in ("Classifier", "Regressor")
        )
        for module, alone, tests, names, actions in (
            (of_deep, dnn, "DNN", DEEP, ("Evaluate", "Predict", "Train")),
            (of_wide, linear, "Linear", WIDE, ("Evaluation", "Predict", "Integration", "Training")),
        ):
            makers = [getattr(alone, f"{tests}{k}{version}") for k in ("Classifier", "Regressor")]
            halves = [half_of(cls, names) for cls in (classifier, regressor)]
            yield getattr(module, f"Base{tests}WarmStartingTest"), version, makers
            for half, made in (("", makers), ("Half", halves)):
                for action in actions:
                    for kind, maker in zip(("Classifier", "Regressor"), made):
                        cls = getattr(module, f"Base{tests}{kind}{action}Test")
                        yield cls, version + half, [maker]
    yield linear_testing_utils_v1.BaseLinearRegressorPartitionerTest, "", [linear.LinearRegressor]
    for module, model_fn, version in (
        (dnn_testing_utils, dnn.dnn_model_fn_v2, "V2"),
        (dnn_testing_utils_v1, dnn._dnn_model_fn, ""),
    ):
        replicated = replicate.replicate_model_fn(model_fn, devices=DEVICES)
        yield module.BaseDNNModelFnTest, version, [replicated]


def test_case(cls, name, given):
    def initialise(self, method_name="runTest"):
        tf2.test.TestCase.__init__(self, method_name)
        cls.__init__(self, *given)

    return type(cls.__name__ + name, (cls, tf2.test.TestCase), {"__init__": initialise})


def main(out):
    tf.logging.set_verbosity(tf.logging.FATAL)
    replicate_everything()
    suite = unittest.TestSuite()
    for case in cases():
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(test_case(*case)))
    result = suite.run(unittest.TestResult())
    failed = {
        ".".join(test.id().split(".")[-2:]): text for test, text in result.failures + result.errors
    }
    with open(out, "w") as file:
        json.dump({"run": result.testsRun, "failed": failed}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
