"""Memory and time of the ways to a RevNet's gradients, each measured in a process of its own.

    activations  most bytes that a step takes at one time, less the gradients
    peak RSS     largest resident memory of a process that only makes steps in one way
    time         of a step, in a process that makes steps in all ways, in turns

Functions and graphs take the same memory, so both are measured in graphs, where it is known
exactly, see `peak_memory.py`. Eagerly, it is the largest use of TensorFlow's allocator, less what
was in use before; that counts blocks, which may be up to twice as large as what was asked for.
"""

import contextlib
import json
import os
import platform
import statistics
import sys
import time

from replicate.bench import harness

WAYS = ("stored", "recompute_grad", "recomputed", "by hand")
BASE = "stored"  # what others are compared with
TIMEOUT_S = 3600
MB = 1e6
# On CPUs, TensorFlow counts what it allocates only if it does so as on GPUs.
_COUNTED = {"TF_CPU_ALLOCATOR_USE_BFC": "1"}


def measure(case, ways, rounds, show=lambda: None):
    """Measures one network in several ways, each in processes of its own.

    Args:
        case: Dict with `preset`, `overrides`, a dict of fields of a `RevNetConfig`, `batch_size`
            and `engine`.
        ways: Those to measure, of `WAYS`; `BASE` must be among them.
        rounds: How often each way makes its step, for memory and for time.
        show: Called after each process; there is one more than twice the number of ways.

    Returns:
        A flat dict for each way, ready for JSON.
    """

    def run(what, in_ways, env=None):
        request = {"what": what, "case": case, "ways": in_ways, "rounds": rounds}
        found = harness.run("examples.revnet.profiling.gradient_costs", request, TIMEOUT_S, env)
        show()
        return found

    made = []
    for way in ways:
        counted, resident = run("memory", [way], _COUNTED), run("rss", [way])
        figures = {**counted, "peak_rss_mb": resident["peak_rss_mb"]}
        made.append({**case, "way": way, "rounds": rounds, **figures})
    timed = run("time", list(ways))
    for record in made:
        mine, base = (timed["step_ms"][way] for way in (record["way"], BASE))
        record["step_ms"] = harness.spread(mine)
        record[f"time_to_{BASE}"] = harness.spread([one / other for one, other in zip(mine, base)])
        record["gradient_difference"] = timed["gradient_difference"][record["way"]]
        record["load_average"] = max(record["load_average"], timed["load_average"])
    return made


def table(records):
    """Returns records as a Markdown table."""
    lines = [
        "| layers | way | activations MB | peak RSS MB | step ms | step / stored (min, max) "
        "| gradients differ by |",
        "|" + " --- |" * 7,
    ]
    for record in records:
        ratio = "{median:.2f} ({min:.2f}, {max:.2f})".format(**record[f"time_to_{BASE}"])
        lines.append(
            f"| {record['layers']} | {record['way']} | {record['activations_mb']:.1f} "
            f"| {record['peak_rss_mb']:,.0f} | {record['step_ms']['median']:.1f} | {ratio} "
            f"| {record['gradient_difference']:.1e} |"
        )
    return "\n".join(lines)


def _measured(what, case, ways, rounds):
    """Measures in this process; returns a dict ready for JSON."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    from examples.revnet.network.config import preset
    from examples.revnet.profiling import gradient_methods as steps

    config = preset(case["preset"], seed=1, **case["overrides"])
    if what == "memory" and case["engine"] != "eager":
        return _exactly(config, ways[0], case["batch_size"])
    graph = tf.Graph().as_default() if case["engine"] == "graph" else contextlib.nullcontext()
    with graph:
        made = {way: steps.make(config, way, case["engine"], case["batch_size"]) for way in ways}
        grads = {way: [np.array(grad) for grad in step()] for way, (_, step) in made.items()}
        if what == "time":
            differences = {way: relative_difference(grads[way], grads[BASE]) for way in ways}
            return {"step_ms": _timed(made, rounds), "gradient_difference": differences}
        ((model, step),) = made.values()
        del grads
        if what == "rss":
            for _ in range(2):
                step()
            return {"peak_rss_mb": harness.peak_rss() / MB}
        peaks = [_counted(step) / MB for _ in range(rounds)]
    return _memory(config, model, statistics.median(peaks))


def _exactly(config, way, batch_size):
    """Measures the memory of a step, as `_measured` does, in a graph."""
    import tensorflow.compat.v1 as tf

    from examples.revnet.profiling import gradient_methods, peak_memory

    with tf.Graph().as_default():
        model, step = gradient_methods.build(config, way, batch_size)
        peak = peak_memory.peak_bytes([step(), model.updates])
    return _memory(config, model, peak / MB)


def _memory(config, model, peak_mb):
    """Returns figures of the memory of a step, a dict ready for JSON."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    def size_mb(variables):
        return sum(each.shape.num_elements() * each.dtype.size for each in variables) / MB

    gradients_mb = size_mb(model.trainable_variables)
    return {
        "layers": config.depth,
        "activations_mb": peak_mb - gradients_mb,
        "gradients_mb": gradients_mb,
        "variables_mb": size_mb(model.variables),
        "tf": tf.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def relative_difference(tensors, references):
    """Returns the largest difference of a tensor from its reference, by the norm of the latter."""
    import numpy as np

    pairs = zip(tensors, references)
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)


def _counted(step):
    """Returns the bytes that a step takes at most, beside what was allocated before."""
    import tensorflow.compat.v1 as tf

    device = "CPU:0"
    tf.config.experimental.reset_memory_stats(device)
    before = tf.config.experimental.get_memory_info(device)["current"]
    step()
    return tf.config.experimental.get_memory_info(device)["peak"] - before


def _timed(made, rounds):
    """Returns the milliseconds of each step, lists by way."""
    import numpy as np

    found = {way: [] for way in made}
    for turn in range(rounds):
        # Backwards every other time, so that no way always follows the same one.
        for way in list(made)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            np.array(made[way][1]()[0])  # the gradient that is there last
            found[way].append(1e3 * (time.perf_counter() - start))
    return found


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(json.dumps(_measured(**json.loads(sys.argv[1]))))
