"""Converts a SavedModel for TensorFlow Lite, and checks that it still gives the same answers."""

import warnings

import numpy as np
import tensorflow.compat.v1 as tf

from examples.runs import native_log
from examples.runs.errors import UserError

# How much a probability may differ, by how weights are stored: as they are; in 8 bits, with
# activations in float32; in 16 bits.
TOLERANCES = {"none": 1e-4, "dynamic": 0.1, "float16": 0.02}
_ROUNDING = 0.05  # how much it may differ where the SavedModel computes in bfloat16
_NUM_IMAGES = 8


def check_is_there():
    """Checks that the installed TensorFlow can convert and try models.

    Raises:
        UserError: If it cannot.
    """
    with native_log.kept_back(only_faults=True):
        _lite()


def convert(source, reference, path, quantize, pixel_range, is_rounded=False):
    """Converts a model, and compares it with another one.

    Args:
        source: Directory of the SavedModel to convert, for a batch of one image.
        reference: Directory of the SavedModel to compare with, on images of noise.
        path: Name of the file to write.
        quantize: Key of `TOLERANCES`.
        pixel_range: Lowest and highest value of a pixel.
        is_rounded: Whether `reference` computes in bfloat16.

    Returns:
        Dict: `quantize`, `bytes` (size of the file) and `max_difference` (the largest between
        probabilities).

    Raises:
        UserError: If it cannot be converted, or its answers differ by more than the tolerance.
    """
    converter_class, _ = _lite()
    converter = converter_class.from_saved_model(source, signature_key="serving_default")
    if quantize != "none":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        with native_log.kept_back(only_faults=True):
            contents = converter.convert()
    except Exception as error:  # It has classes of errors of its own in each version.
        raise UserError(
            f"TensorFlow {tf.__version__} cannot convert this network for TensorFlow Lite: "
            f"{error}. Export it without --tflite, or with another version."
        ) from error
    interpreter = new_interpreter(contents)
    shape = interpreter.get_input_details()[0]["shape"]
    images = np.random.RandomState(0).uniform(*pixel_range, size=[_NUM_IMAGES, *shape[1:]])
    images = images.astype(np.float32)
    wanted = saved_model_probabilities(reference, images)
    difference = float(np.max(np.abs(lite_probabilities(interpreter, images) - wanted)))
    tolerance = max(TOLERANCES[quantize], _ROUNDING if is_rounded else 0)
    if not difference <= tolerance:
        raise UserError(
            "A model for TensorFlow Lite must answer as the SavedModel does, but probabilities "
            f"differ by up to {difference:.2g}, more than {tolerance:.2g}. Export it with "
            "--tflite_quantize none, or without --tflite."
        )
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(contents)
    return {"quantize": quantize, "bytes": len(contents), "max_difference": difference}


def new_interpreter(contents):
    """Returns an interpreter of a model, bytes, that is ready to run."""
    _, interpreter_class = _lite()
    with warnings.catch_warnings(), native_log.kept_back(only_faults=True):
        warnings.simplefilter("ignore")  # It says that it will be somewhere else one day.
        interpreter = interpreter_class(model_content=contents)
        interpreter.allocate_tensors()
    return interpreter


def lite_probabilities(interpreter, images):
    """Returns the probabilities, float32 [n, classes], of images, float32 [n, ...], one by one."""
    given = interpreter.get_input_details()[0]["index"]
    # There are two outputs, in no order that can be relied upon.
    floats = [out for out in interpreter.get_output_details() if out["dtype"] == np.float32]
    rows = []
    for image in images:
        interpreter.set_tensor(given, image[np.newaxis])
        interpreter.invoke()
        rows.append(interpreter.get_tensor(floats[0]["index"])[0])
    return np.stack(rows)


def saved_model_probabilities(directory, images):
    """Returns the probabilities, float32 [n, classes], of images, float32 [n, ...]."""
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.load(session, [tf.saved_model.SERVING], directory)
        signature = meta.signature_def["serving_default"]
        feeds = {signature.inputs["images"].name: images}
        return session.run(signature.outputs["probabilities"].name, feeds)


def _lite():
    """Returns the classes of the converter and of the interpreter."""
    try:
        return tf.lite.TFLiteConverter, _interpreter_class()
    except (AttributeError, ImportError) as error:
        raise UserError(
            "--tflite needs the converter and the interpreter of TensorFlow Lite, but TensorFlow "
            f"{tf.__version__} does not have both here ({error}). Run `pip install "
            "ai-edge-litert`, or export in an environment with TensorFlow 2.15."
        ) from error


def _interpreter_class():
    try:
        from ai_edge_litert.interpreter import Interpreter  # where TensorFlow moves it to
    except ImportError:
        return tf.lite.Interpreter
    return Interpreter
