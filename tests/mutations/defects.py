"""The defects: one change of the library's text each, as somebody might make it by mistake."""

from typing import NamedTuple


class Defect(NamedTuple):
    """A change that makes a wrong library of a right one.

    Attributes:
        name: What goes wrong.
        file: Which file of `replicate/` it is in.
        right: Text that is in there once.
        wrong: What takes its place.
        on_1_15: The folder or file of tests of it, if it shows on TensorFlow 1.15 alone.
    """

    name: str
    file: str
    right: str
    wrong: str
    on_1_15: str = ""


DEFECTS = (
    # Operations that run only in some steps.
    Defect(
        "an update without inputs from the branch runs in every step",
        "compat/conditional.py",
        "            op._add_control_input(self._pivot.op)\n",
        "            pass\n",
    ),
    # Batches that wait on the devices.
    Defect(
        "a step trains the rows of the next one",
        "batch/prefetching.py",
        "                with tf.control_dependencies([taken]):\n",
        "                with tf.control_dependencies([]):\n",
    ),
    Defect(
        "the last batch is trained without end",
        "batch/prefetching.py",
        "                with tf.control_dependencies([self._is_there]):\n",
        "                with tf.control_dependencies([]):\n",
    ),
    Defect(
        "a session begins with what the last one staged",
        "batch/prefetching.py",
        "        session.run(self._fill)\n",
        "        del session\n",
    ),
    Defect(
        "the last tower's gradient is not added",
        "reduction/collectives.py",
        "return tf.add_n([dense(gradient, variable) for gradient in grads])",
        "return tf.add_n([dense(gradient, variable) for gradient in grads[:2]])",
    ),
    Defect(
        "slices of a sparse gradient keep their tower's type of indices",
        "reduction/collectives.py",
        "tf.concat([tf.cast(gradient.indices, index_type) for gradient in grads], axis=0),",
        "tf.concat([grads[0].indices for gradient in grads], axis=0),",
    ),
    Defect(
        "rows of a sparse gradient that occur twice count once in its norm",
        "reduction/collectives.py",
        "    indices, positions = tf.unique(gradient.indices)\n",
        "    return gradient\n    indices, positions = tf.unique(gradient.indices)\n",
    ),
    Defect(
        "parts of a pack are given out in another order",
        "reduction/packing.py",
        'self._reshape(f"{parted}:{index}"',
        'self._reshape(f"{parted}:{len(sizes) - 1 - index}"',
    ),
    Defect(
        "what crosses devices in half precision stays there",
        "reduction/transport.py",
        "received = tf.cast(sent, dtype)",
        "received = sent",
    ),
    # The batch.
    Defect(
        "shards differ by the wrong row",
        "batch/row_counts.py",
        "    rows = least + tf.cast(tf.range(num_towers) < more, tf.int32)",
        "    rows = least + tf.cast(tf.range(num_towers) <= more, tf.int32)",
    ),
    # Gradients.
    Defect(
        "gradients are clipped before they are transformed",
        "optimizer/training_step.py",
        "        if self._transform_gradients is not None:\n"
        "            grads_and_vars = list(self._transform_gradients(grads_and_vars))\n"
        "        if self._clip_norm is not None:",
        "        if self._clip_norm is not None:",
    ),
    Defect(
        "accumulated gradients are not divided",
        "optimizer/totals.py",
        "            value = value / count",
        "            pass",
    ),
    Defect(
        "accumulated gradients are not reset",
        "optimizer/accumulation.py",
        "            return [reset(updated), zero]",
        "            return [zero]",
    ),
    Defect(
        "a loss scale looks at the gradients of one tower",
        "engines/finite.py",
        '    (bad,), _ = context.engine().add([_bad(grads)], "finite gradients")',
        "    bad = _bad(grads)",
    ),
    Defect(
        "a step is applied though its gradients are not finite",
        "optimizer/training_step.py",
        "        return tf.group(operations([rescale, run_if(is_finite, apply)]))",
        "        return tf.group(operations([rescale, apply()]))",
    ),
    Defect(
        "gradients are not divided by the loss scale",
        "optimizer/loss_scaling.py",
        "    return gradient / tf.cast(scale, gradient.dtype)",
        "    return gradient",
    ),
    Defect(
        "gradients that are not finite are applied, though they were to be checked",
        "optimizer/finite_check.py",
        "    with tf.control_dependencies([] if check is None else [check]):",
        "    with tf.control_dependencies([]):",
    ),
    # Across towers, batch norm, metrics, hooks, sessions.
    Defect(
        "the gradient of a cross-tower sum is that of this tower's loss",
        "cross_tower.py",
        '        sums = _differentiable_sum(engine, weighted, f"gradient of {name}")',
        "        sums = weighted",
    ),
    Defect(
        "batch norm's variance is that of differences from one tower's mean",
        "normalization.py",
        "tf.math.squared_difference(inputs, tf.stop_gradient(mean)))",
        "tf.math.squared_difference(inputs, tf.reduce_mean(inputs, axes, True)))",
    ),
    Defect(
        "training goes on from a damaged checkpoint",
        "faults/recovery.py",
        "    hook = FallBackHook(model_dir)\n"
        "    spec = spec._replace(training_chief_hooks=(*spec.training_chief_hooks, hook))\n",
        "",
    ),
    Defect(
        "gradients that were accumulated are lost at the end",
        "faults/recovery.py",
        "    return accumulation_hook.save_at_end(loss_scale_hook.end_stalled(spec), config)",
        "    return loss_scale_hook.end_stalled(spec)",
    ),
    Defect(
        "devices in the batch are those of the whole host",
        "arguments/call_devices.py",
        "    if training and rows and rows < size:",
        "    if rows and rows > size:",
    ),
    Defect(
        "scan: a file that has changed is looked at as if it had not",
        "migration/scan/codebase.py",
        "reading.source(path, data) if files.digest(data) == digest else None",
        "reading.source(path, data)",
    ),
    Defect(
        "scan: an import leads to files of its own directory alone",
        "migration/scan/imports.py",
        "        yield from self._roots\n",
        "",
    ),
    Defect(
        "scan: Keras optimizers of models that are trained eagerly are said",
        "migration/scan/training.py",
        "    if any(_is_eager(module, call) for call in module.names.calls):\n",
        "    if False:\n",
    ),
    Defect(
        "scan: install() is called after what it is for",
        "migration/scan/installing.py",
        "    return Edit(start, start, ",
        "    start = len(text)\n    return Edit(start, start, ",
    ),
    # Replacements of `tf.contrib` and `tensorflow`.
    Defect(
        "contrib: a name below a package that has no line is that of its last part",
        "migration/contrib/table.py",
        "    if parts[-1] in rows and _is_path(name):\n",
        "    if parts[-1] in rows:\n",
    ),
    Defect(
        "contrib: a package that is not installed is not named",
        "migration/contrib/modules.py",
        "    if place.package and not _is_installed(_IMPORTED[place.package]):\n",
        "    if False:\n",
    ),
    Defect(
        "contrib: a penalty of L1 and L2 is that of L1 alone",
        "migration/contrib/regularizers.py",
        "[l1_regularizer(scale_l1), l2_regularizer(scale_l2)]",
        "[l1_regularizer(scale_l1)]",
        on_1_15="tests/migration/test_contrib_real.py",
    ),
    Defect(
        "contrib: arguments in another order are called by position",
        "migration/contrib/respelling.py",
        "        return function(**{names[new]: value for new, value in given.items()})\n",
        "        return function(*given.values())\n",
    ),
    Defect(
        "version 1: libraries see it, too",
        "migration/tensorflow_1.py",
        '    if is_program and not (full == "tensorflow" and name in _SHARED):\n',
        '    if not (full == "tensorflow" and name in _SHARED):\n',
    ),
    Defect(
        "version 1: what a program sets goes to version 2's module",
        "migration/tensorflow_1.py",
        "            setattr(_seen(self, not is_import and callers.is_program(), name)",
        "            setattr(_seen(self, False, name)",
    ),
    # One device's graph in towers.
    Defect(
        "means of towers are added up in place of sums",
        "partition/means.py",
        "tf.raw_ops.Sum(",
        "tf.raw_ops.Mean(",
    ),
    Defect(
        "a tower without rows counts in sums",
        "partition/counted.py",
        "    if is_without:\n",
        "    if is_without or isinstance(layout, Partial):\n",
    ),
    Defect(
        "gradients that nothing takes run with the loss",
        "partition/plan.py",
        "(origins.together(tensor), tensor.op in running) if key in needed else key\n",
        "origins.together(tensor)\n",
    ),
    Defect(
        "a constant behind a group of assertions runs although one fails",
        "partition/constants.py",
        "            found.update(dict.fromkeys(_waits(one, origins, copied)))\n",
        "            continue\n",
    ),
    Defect(
        "random numbers are one for all towers",
        "partition/copies.py",
        "change_seed(node, tower)\n",
        "pass\n",
    ),
    Defect(
        "an operation that waits for all towers waits for the first",
        "compat/partitioning.py",
        "others.get(one, (one,))",
        "others.get(one, (one,))[:1]",
    ),
    Defect(
        "all towers call the functions of the first",
        "partition/copies.py",
        "has_seed or is_framed or calls)",
        "has_seed or is_framed)",
    ),
    Defect(
        "towers take a constant in place of their parts of a constant batch",
        "partition/constants.py",
        "if graph_lib.reference(tensor) in self._batch:",
        "if not tensor.op:",
    ),
    # The program of one tower.
    Defect(
        "towers of a program draw the same random numbers",
        "partition/per_tower.py",
        "        return draws and operation not in self._first_values\n",
        "        return False\n",
    ),
    Defect(
        "metrics of a program are averaged over towers",
        "partition/per_tower_updates.py",
        "        how = SUM\n",
        "        how = MEAN\n",
    ),
    Defect(
        "moving averages of a program are those of the first tower",
        "partition/per_tower_updates.py",
        "        how = MEAN\n",
        "        how = None\n",
    ),
    Defect(
        "a cross-tower mean is not weighted by rows",
        "engines/tower_engine.py",
        "value / self.size if share is None else value * share",
        "value / self.size",
    ),
    Defect(
        "each tower has the index of the first",
        "partition/program.py",
        "lambda index: tf.constant(index, tf.int32)",
        "lambda index: tf.constant(0, tf.int32)",
    ),
)
