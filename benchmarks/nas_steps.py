"""Times steps of the architecture search, and of what it is compared with, in this process.

A step trains on one batch and validates on another. All *engines* do so with the same networks,
K of them, which are drawn as a search that has learned nothing yet draws them:

    search     the example's own step, on one tower
    towers     the same on two towers, each with half of the rows and a network of its own
    alone      each network by itself, as wide as it is, in a graph of its own: forward and backward
               with the same optimizer, then forward on validation images; no controller, no cost
               model, no barrier before the update
    masked     the same, but as wide as the super-network: drawn widths are masks
    stored     a search step whose branches keep their activations instead of running again
    all        a search step that computes all branches, without conditionals, and adds them up
"""

import functools
import json
import platform
import sys
import tempfile
import time
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from benchmarks.nas_speed import Case
from examples.nas_search import controller, mobile_classifier_factory, schema
from examples.nas_search.basic_specs import OP_TAG
from examples.nas_search.rematlib import switch
from examples.nas_search.search import model_fn, search_settings
from replicate.bench import harness

_SEED = 3


class Stored(switch.Switch):
    """A switch of plain conditionals: `tf.gradients` goes through them, and keeps activations."""

    def _call(self, inputs, run):
        return self._sum(inputs, run)


class AllBranches(switch.Switch):
    """A switch that is none."""

    def _call(self, inputs, run):
        outputs = [share * option(inputs, run) for share, _, option in self._computed()]
        return tf.add_n(outputs)


def measure(case, engine, networks, repeats):
    """Times steps.

    Args:
        case: The `Case`.
        engine: One of those above.
        networks: K, an even number.
        repeats: How often each network's step is timed; the first two are not. 0: only the graph is
            built.

    Returns:
        A dict ready for JSON: `step_ms`, the mean over networks of the median over repeats;
        `first_step_s`, from a session to the end of its first step; `build_s` and `build_cpu_s`,
        wall and CPU time of graph construction; `ops`, operations of the graph; `peak_rss_mb`,
        peak resident memory of this process in MiB; `forward_mflops`, million floating point
        operations to classify an image, mean over networks; None where some are conditional.
    """
    with tempfile.TemporaryDirectory() as directory, tf.Graph().as_default() as graph:
        params = _params(case, 2 if engine == "towers" else 1, directory)
        images, labels = _batches(case)
        make_specs = _make_specs(engine, params, networks)
        wall, cpu = time.perf_counter(), time.process_time()
        if make_specs:
            runs = _by_themselves(make_specs, params, images, labels)
        else:
            runs = _searching(engine, params, images, labels, networks)
        figures = {
            "build_s": time.perf_counter() - wall,
            "build_cpu_s": time.process_time() - cpu,
            "ops": len(graph.get_operations()),
        }
        if repeats:
            figures.update(_timed(runs, params, repeats))
    figures["peak_rss_mb"] = harness.peak_rss() / 2**20
    # Last, as it builds graphs of its own.
    figures["forward_mflops"] = _mean_forward_mflops(engine, make_specs, params)
    versions = {"tf": tf.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {**figures, **versions}


def _params(case, num_towers, directory):
    """Returns settings of a search that draws from step 0 on and whose controller never learns."""
    params = search_settings.resolve(
        preset="digits",
        checkpoint_dir=directory,
        num_towers=num_towers,
        train_batch_size=case.train_rows,
        rl_batch_size_multiplier=case.validation_rows / case.train_rows,
        rl_delay_steps_fraction=1.0,
        increase_ops_warmup_steps_fraction=0.0,
        increase_filters_warmup_steps_fraction=0.0,
        seed=_SEED,
    )
    # Of data that need not exist.
    shape = [case.side, case.side, case.channels]
    return {**params, "ssd": case.ssd, "image_shape": shape, "num_classes": case.classes}


def _batches(case):
    random = np.random.RandomState(0)
    rows = {"train": case.train_rows, "validation": case.validation_rows}
    shape = (case.side, case.side, case.channels)
    images = {
        part: tf.constant(random.rand(count, *shape), tf.float32) for part, count in rows.items()
    }
    labels = {
        part: tf.one_hot(random.randint(case.classes, size=count), case.classes)
        for part, count in rows.items()
    }
    return images, labels


def _timed(runs, params, repeats):
    """Runs steps, pairs of the global step to set before, or None, and what to run.

    Returns the figures of their times.
    """
    steps = tf.train.get_or_create_global_step()
    devices = [f"/cpu:{index}" for index in range(params["num_towers"])]
    times = [[] for _ in runs]
    with tf.Session(config=replicate.session_config(devices)) as session:
        start = time.perf_counter()
        session.run(tf.global_variables_initializer())
        for repeat in range(repeats + 2):
            for number, (step, run) in enumerate(runs):
                if step is not None:
                    steps.load(step, session)
                begin = time.perf_counter()
                session.run(run)
                times[number].append(time.perf_counter() - begin)
                if repeat == number == 0:
                    first = time.perf_counter() - start
    medians = [np.median(each[2:]) for each in times]
    return {"step_ms": 1e3 * float(np.mean(medians)), "first_step_s": first}


def _searching(engine, params, images, labels, networks):
    """Builds the step of a search."""
    kinds = {"stored": Stored, "all": AllBranches}
    build = model_fn.model_fn
    if engine == "towers":
        build = replicate.replicate_model_fn(build, devices=["/cpu:0", "/cpu:1"], per_tower=True)
    with mock.patch.object(switch, "Switch", kinds.get(engine, switch.Switch)):
        spec = build(features=images, labels=labels, mode="train", params=params)
    each = params["num_towers"]
    return [(step, spec.train_op) for step in range(networks // each)]


def _drawn(params):
    """Returns a network with masks, by a placeholder for the seed of its draw."""
    space = mobile_classifier_factory.get_model_spec(params["ssd"])
    seed = tf.placeholder(tf.int32, [2])
    with tf.variable_scope("drawn"):
        network, _ = controller.independent_sample(space, seed=seed)
    return network, seed


def _index_lists(params, networks):
    """Returns the networks that a search draws: int [networks, choices]."""
    with tf.Graph().as_default(), tf.Session() as session:
        network, seed = _drawn(params)
        masks = []
        schema.map_oneofs(lambda oneof: masks.append(tf.argmax(oneof.mask)), network)
        session.run(tf.global_variables_initializer())
        return [session.run(masks, {seed: [_SEED, number]}) for number in range(networks)]


def _make_specs(engine, params, networks):
    """Returns a function for each network that makes its spec, in the graph that it is called in.

    Returns nothing for engines whose networks are not by themselves.
    """
    if engine not in _KINDS:
        return []
    return [
        functools.partial(_KINDS[engine], params["ssd"], list(indices))
        for indices in _index_lists(params, networks)
    ]


def _by_themselves(make_specs, params, images, labels):
    """Builds the step of each network by itself."""
    runs = []
    for number, make_spec in enumerate(make_specs):
        with tf.variable_scope(f"network_{number}"):
            model = _model(make_spec(), params)
            model.build(images["train"].shape)
            logits, _ = model.apply(images["train"], True)
            loss = tf.losses.softmax_cross_entropy(labels["train"], logits, label_smoothing=0.1)
            loss += model.regularization_loss()
            rate = tf.constant(params["model_learning_rate"])
            optimizer = tf.train.RMSPropOptimizer(rate, 0.9, params["model_momentum"], epsilon=1.0)
            update = optimizer.minimize(loss, var_list=model.trainable_variables())
            with tf.control_dependencies([update]):
                validation, _ = model.apply(images["validation"], False)
            runs.append((None, tf.argmax(validation, axis=1)))
    return runs


def _chosen(ssd, indices):
    """Returns a network with the widths that it has."""
    return mobile_classifier_factory.get_model_spec(ssd, indices=indices)


def _masked(ssd, indices):
    """Returns a network whose operations are chosen, and whose widths are masks."""
    queue = iter(indices)

    def choose(oneof):
        index, number = next(queue), len(oneof.choices)
        if oneof.tag == OP_TAG:
            return schema.OneOf([oneof.choices[index]], oneof.tag)
        return schema.OneOf(oneof.choices, oneof.tag, tf.one_hot(index, number))

    return schema.map_oneofs(choose, mobile_classifier_factory.get_model_spec(ssd))


_KINDS = {"alone": _chosen, "masked": _masked}


def _mean_forward_mflops(engine, make_specs, params):
    """Returns the mean over networks, None where some operations are conditional."""
    if make_specs:
        return float(np.mean([_forward_mflops(make_spec, params) for make_spec in make_specs]))
    if engine != "all":
        return None
    with mock.patch.object(switch, "Switch", AllBranches):
        return _forward_mflops(lambda: _drawn(params)[0], params)


def _forward_mflops(make_spec, params):
    """Returns the floating point operations of the forward pass on one image, in millions."""
    with tf.Graph().as_default() as graph:
        model = _model(make_spec(), params)
        image = tf.zeros([1, *params["image_shape"]])
        model.build(image.shape)
        model.apply(image, False)
        builder = tf.profiler.ProfileOptionBuilder
        options = builder(builder.float_operation()).with_empty_output().build()
        return tf.profiler.profile(graph, options=options).total_float_ops / 1e6


def _model(spec, params):
    def penalty(kernel):
        return params["model_weight_decay"] * tf.nn.l2_loss(kernel)

    return mobile_classifier_factory.get_model_for_search(
        spec, kernel_regularizer=penalty, num_classes=params["num_classes"]
    )


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(measure(Case(**request.pop("case")), **request)))
