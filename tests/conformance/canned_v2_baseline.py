"""V2's `BaselineClassifier`, one line changed: a bias for each class, by an optimizer of Keras."""

from conformance import canned_v2_dnn, program, version_2
from versions import legacy


def make_model_fn():
    classifier = version_2.api().BaselineClassifier(n_classes=3, optimizer=lambda: legacy.Ftrl(0.1))
    return classifier.model_fn


PROGRAM = program.Program(make_model_fn, canned_v2_dnn.rows)
