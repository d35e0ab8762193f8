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
    # What runs in some steps only.
    Defect(
        "an update that takes nothing of the branch runs in every step",
        "compat/conditional.py",
        "            op._add_control_input(self._pivot.op)\n",
        "            pass\n",
    ),
    # What optimizers take of rows, and updates as strangers write them.
    Defect(
        "a learning rate of the loss is of tower 0's rows",
        "towers/hyperparameters.py",
        "                copying.redirect(op, position, merged)\n",
        "                pass\n",
    ),
    Defect(
        "rows of all towers are put to places that each counts from 0",
        "towers/merged_updates.py",
        "            return False  # Places that are counted",
        "            pass  # Places that are counted",
    ),
    Defect(
        "a moving average is merged with one that waits for it",
        "towers/merged_updates.py",
        "    later = waiting.behind(group, taking) if len(taking) > 1 else ()\n",
        "    later = ()\n",
    ),
    Defect(
        "towers go back through each other's calls of Python",
        "compat/copying.py",
        "            self._tokens[index].change(node)\n",
        "",
    ),
    Defect(
        "nothing is said of rows that take something of others",
        "graphs/row_reductions.py",
        "        if row_mixing.mixes(op, kinds):\n",
        "        if False:\n",
    ),
    # Batches that wait on the devices.
    Defect(
        "a step trains the rows of the next one",
        "towers/prefetching.py",
        "                with tf.control_dependencies([taken]):\n",
        "                with tf.control_dependencies([]):\n",
    ),
    Defect(
        "the last batch is trained without end",
        "towers/prefetching.py",
        "                with tf.control_dependencies([self._is_there]):\n",
        "                with tf.control_dependencies([]):\n",
    ),
    Defect(
        "a session begins with what the last one staged",
        "towers/prefetching.py",
        "        session.run(self._fill)\n",
        "        del session\n",
    ),
    Defect(
        "hooks see the rows of the next batch",
        "model_fn.py",
        "            shards = ahead.stage(shards, tower_devices, cluster.worker)\n"
        "        sharding.name_size(shards)\n",
        "            sharding.name_size(shards)\n"
        "            shards = ahead.stage(shards, tower_devices, cluster.worker)\n",
    ),
    # Sums over towers.
    Defect(
        "a weight is dropped",
        "gathering/collectives.py",
        "    if weights.equal == 1:\n        return gradient\n",
        "    if weights.equal is not None:\n        return gradient\n",
    ),
    Defect(
        "gradients of float16 are summed before they are weighted",
        "gathering/collectives.py",
        "_NARROW = (tf.float16,)",
        "_NARROW = ()",
    ),
    Defect(
        "the last tower's gradient is not added",
        "gathering/collectives.py",
        "return tf.add_n([dense(gradient, variable) for gradient in grads])",
        "return tf.add_n([dense(gradient, variable) for gradient in grads[:2]])",
    ),
    Defect(
        "slices of a sparse gradient keep their tower's type of indices",
        "gathering/collectives.py",
        "tf.concat([tf.cast(gradient.indices, index_type) for gradient in grads], axis=0),",
        "tf.concat([grads[0].indices for gradient in grads], axis=0),",
    ),
    Defect(
        "rows of a sparse gradient that occur twice count once in its norm",
        "gathering/collectives.py",
        "    indices, positions = tf.unique(gradient.indices)\n",
        "    return gradient\n    indices, positions = tf.unique(gradient.indices)\n",
    ),
    Defect(
        "parts of a pack are given out in another order",
        "gathering/packing.py",
        "    return [reshape(value, shape.as_list()) for value, shape in zip(parts, shapes)]",
        "    return [reshape(v, s.as_list()) for v, s in zip(reversed(parts), reversed(shapes))]",
    ),
    Defect(
        "a pack is taken for whole though a part of it is missing",
        "gathering/packing.py",
        "        if all(parts) and",
        "        if any(parts) and",
    ),
    Defect(
        "weights that are read after an update are packed",
        "towers/packed_weights.py",
        "        not op.control_inputs\n",
        "        True\n",
    ),
    Defect(
        "a pack is joined where it is taken",
        "towers/packed_weights.py",
        "                    with tf.device(_place(one[0])):\n",
        "                    with tf.device(device):\n",
    ),
    Defect(
        "what is taken beside its variable takes a pack",
        "towers/packed_weights.py",
        "    return all(other.device == op.device for other in beside)\n",
        "    return True\n",
    ),
    Defect(
        "copies keep replicas that were given up",
        "towers/replicas.py",
        "            group.copies.share_again(first.op.outputs[0])\n",
        "            pass\n",
    ),
    Defect(
        "replicas that were given up are updated",
        "towers/replicas.py",
        "            graph_lib.set_control_inputs(whole, [own])\n",
        "            pass\n",
    ),
    Defect(
        "replicas that were our choice follow what hooks assign",
        "towers/replicas.py",
        "            is_meant = op in reached or (at_any_time and not _is_at_start(first, op))\n",
        "            is_meant = op in reached\n",
    ),
    Defect(
        "what a model places itself has replicas, too",
        "towers/variables.py",
        "        if self.placement.is_auto and not self.placement.has(variable):\n",
        "        if False:\n",
    ),
    Defect(
        "what crosses devices in half precision stays there",
        "gathering/transport.py",
        "def widen(",
        "def widen(sent, given):\n    del given\n    return sent\n\n\ndef _widen(",
    ),
    # The batch.
    Defect(
        "shards differ by the wrong row",
        "batch/sharding.py",
        "    rows = least + tf.cast(tf.range(num_towers) < more, tf.int32)",
        "    rows = least + tf.cast(tf.range(num_towers) <= more, tf.int32)",
    ),
    Defect(
        "rows are weighted alike, however many each tower has",
        "batch/weights.py",
        "        return Weights([tf.cast(rows, tf.float64) / total for rows in shards.rows])",
        "        return Weights([tf.cast(rows, tf.float64) * 0 + 1 / len(shards.rows)"
        " for rows in shards.rows])",
    ),
    Defect(
        "a tower without rows counts in sums",
        "batch/weights.py",
        "        return tf.where_v2(self._are_positive[index], value, otherwise)",
        "        return value",
    ),
    Defect(
        "the copy of the last row is among the predictions",
        "batch/weights.py",
        "            if not self.is_positive(index):\n                size",
        "            if False:\n                size",
    ),
    # The copies.
    Defect(
        "a copy reads what was computed for tower 0",
        "towers/copies.py",
        "        found = self._counterparts.get((id_of(tensor.op), tensor.value_index))\n"
        "        if found is not None:\n            return found[index]",
        "        found = self._counterparts.get((id_of(tensor.op), tensor.value_index))\n"
        "        if found is not None:\n            return found[min(index, 1)]",
    ),
    Defect(
        "random numbers are one for all towers",
        "towers/copies.py",
        "        if self.differing.reach_op(op):\n            return False",
        "        if self.rows.reach_op(op):\n            return False",
    ),
    Defect(
        "large constants are copied",
        "towers/copies.py",
        "            return (op.outputs[0].shape.num_elements() or 0) > _LARGE",
        "            return False",
    ),
    Defect(
        "what writes is copied, and happens once per tower",
        "towers/copies.py",
        "            return not (graph_lib.in_while_loop(op) and self._enters_own(op))",
        "            return False",
    ),
    Defect(
        "stand-ins are replaced for those who wait for them, but not fetched",
        "towers/group.py",
        "            copying.redirect(other.op, other.value_index, copied)",
        "            del copied",
    ),
    Defect(
        "the towers' index is that of tower 0",
        "towers/group.py",
        "self._of_each(lambda index: tf.constant(index, tf.int32))",
        "self._of_each(lambda index: tf.constant(0, tf.int32))",
    ),
    Defect(
        "a sum over towers takes rows that do not count",
        "towers/group.py",
        "                values.append(weights.mask(index, own, tf.zeros_like(own)))",
        "                values.append(own)",
    ),
    Defect(
        "a device that was chosen for a variable is overruled",
        "towers/variables.py",
        "        if depth != towers.device_depth:\n",
        "        if depth < towers.device_depth:\n",
    ),
    Defect(
        "replicas start from values of their own",
        "towers/replicas.py",
        "        return tf.raw_ops.Snapshot(input=first.read_value())",
        "        return first.initial_value * 1.5",
    ),
    Defect(
        "replicas' slots are shared",
        "towers/replicas.py",
        "                if id_of(memory) in made:\n"
        "                    self.make(made[id_of(memory)], group)\n",
        "                if id_of(memory) in made:\n                    pass\n",
    ),
    # Gradients where they are made.
    Defect(
        "a backward pass starts from 1 in every tower",
        "towers/whole_gradients.py",
        "        return loss.starts(given), loss.kind",
        "        return [Start(y, given)], loss.kind",
    ),
    Defect(
        "gradients of activations are weighted",
        "towers/whole_gradients.py",
        "made[position] = _unweighted(group, gradient) if kind == MEAN else gradient",
        "made[position] = gradient",
    ),
    Defect(
        "gradients are gathered in merge functions, a second time",
        "towers/whole_gradients.py",
        '    if group is None or group.merging or getattr(_local, "running", None) is not None:',
        '    if group is None or getattr(_local, "running", None) is not None:',
    ),
    Defect(
        "gradients by hand are not weighted",
        "towers/gathered_gradients.py",
        "        gathered = gather(group, [pairs[i] for i in own], step, group.loss_weights)",
        "        gathered = gather(group, [pairs[i] for i in own], step)",
    ),
    Defect(
        "a variable with two gradients gets the first",
        "towers/gathered_gradients.py",
        "            (collectives.total([g for g in grads if g is not None] or [None], variable), "
        "variable)",
        "            (grads[0], variable)",
    ),
    Defect(
        "what mixes gathered gradients with a tower's rows is not said",
        "towers/gathered_gradients.py",
        "        if not self._reach.reach(values):\n            return",
        "        return",
    ),
    # Losses and updates from rows.
    Defect(
        "a loss is the mean of the towers', though it adds up",
        "graphs/whole_loss.py",
        "        elif self._is_linear and kinds <= {SUM}:\n            self.kind = SUM",
        "        elif self._is_linear and kinds <= {SUM}:\n            self.kind = MEAN",
    ),
    Defect(
        "a sum divided by a sum counts as a sum",
        "graphs/row_reductions.py",
        "        if divides and kinds == [SUM, SUM]:\n            return MEAN",
        "        if divides and kinds == [SUM, SUM]:\n            return SUM",
    ),
    Defect(
        "the largest value over rows is that of tower 0",
        "graphs/extents.py",
        "        return (tf.reduce_max if kind == LARGEST else tf.reduce_min)(values, axis=0)",
        "        return values[0]",
    ),
    Defect(
        "updates with an aggregation are tower 0's",
        "towers/merged_updates.py",
        '        if merged is None and aggregation == "MEAN":',
        '        if aggregation == "MEAN":\n            return True\n        if merged is None:',
    ),
    Defect(
        "slices that rows scatter are tower 0's",
        "towers/merged_updates.py",
        "        _concatenate(group, op)\n        return True",
        "        return True",
    ),
    Defect(
        "what is updated from one tower's rows is not said",
        "towers/merged_updates.py",
        "    if names:\n        _warn(names)",
        "    del names",
    ),
    Defect(
        "metrics of batches are added up over towers",
        "towers/merged_updates.py",
        "        if id_of(update.op) in of_batches:",
        "        if id_of(update.op) in ():",
    ),
    Defect(
        "a function's variable keeps what the last tower made of it",
        "towers/own_state.py",
        "            op = change.variable.assign(tf.add_n(parts), read_value=False)",
        "            op = change.variable.assign(parts[-1], read_value=False)",
    ),
    Defect(
        "averaged summaries are not weighted",
        "towers/summaries.py",
        "tf.cast(own, exact) * weights.of(index, exact), tf.zeros([], exact))",
        "tf.cast(own, exact) / group.size, tf.zeros([], exact))",
    ),
    Defect(
        "predictions are those of tower 0",
        "towers/specs.py",
        "        return group.row_weights.concatenated(["
        "own for (own,) in group.each([value])], axis)",
        "        return value",
    ),
    # What becomes of gradients.
    Defect(
        "gradients are clipped before they are transformed",
        "gradients/training_step.py",
        "        if self._transform_gradients is not None:\n"
        "            grads_and_vars = list(self._transform_gradients(grads_and_vars))\n"
        "        if self._clip_norm is not None:",
        "        if self._clip_norm is not None:",
    ),
    Defect(
        "accumulated gradients are not divided",
        "gradients/totals.py",
        "            value = value / count",
        "            pass",
    ),
    Defect(
        "what was accumulated is not reset",
        "gradients/accumulation.py",
        "            return [reset(updated), zero]",
        "            return [zero]",
    ),
    Defect(
        "packs that are accumulated are restored in another order",
        "compat/saving.py",
        "for part in restored_tensors]",
        "for part in restored_tensors[::-1]]",
    ),
    Defect(
        "a loss scale looks at the gradients of one tower",
        "engines/finite.py",
        '    (bad,), _ = context.engine().add([_bad(grads)], "finite gradients")',
        "    bad = _bad(grads)",
    ),
    Defect(
        "a step is applied though its gradients are not finite",
        "gradients/training_step.py",
        "        return tf.group(operations([rescale, run_if(is_finite, apply)]))",
        "        return tf.group(operations([rescale, apply()]))",
    ),
    Defect(
        "gradients are not divided by the loss scale",
        "gradients/loss_scaling.py",
        "    return gradient / tf.cast(scale, gradient.dtype)",
        "    return gradient",
    ),
    Defect(
        "gradients that are not finite are applied, though they were to be checked",
        "gradients/finite_check.py",
        "    with tf.control_dependencies([] if check is None else [check]):",
        "    with tf.control_dependencies([]):",
    ),
    Defect(
        "what optimizers do not wrap is applied in every tower",
        "gradients/unwrapped.py",
        "    if inner or graph_lib.in_control_flow(group.graph):",
        "    if True:",
    ),
    # Across towers, batch norm, metrics, hooks, sessions.
    Defect(
        "the gradient of a cross-tower sum is that of this tower's loss",
        "cross_tower.py",
        '        sums = _differentiable_sum(engine, weighted, f"gradient of {name}")',
        "        sums = weighted",
    ),
    Defect(
        "a cross-tower mean is not weighted by rows",
        "engines/tower_engine.py",
        "        return value * self._towers.weight(self._towers.row_weights, value.dtype)",
        "        return value / self._towers.size",
    ),
    Defect(
        "batch norm's variance is that of differences from one tower's mean",
        "normalization.py",
        "tf.math.squared_difference(inputs, tf.stop_gradient(mean)))",
        "tf.math.squared_difference(inputs, tf.reduce_mean(inputs, axes, True)))",
    ),
    Defect(
        "TensorFlow 1's seeds are those of the towers' graph",
        "towers/group.py",
        "            with seeds.uncounted(), self._scopes.again(), device:",
        "            with self._scopes.again(), device:",
        on_1_15="tests/contract",
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
        "variables may be read after they were written in the same step",
        "model_fn.py",
        "            references.read_before_written([spec.train_op, spec.loss])\n",
        "",
    ),
    Defect(
        "whatever is done once waits for tower 0 alone",
        "towers/group.py",
        "        waiting.for_all(self, self._fetches)",
        "        del self._fetches[:]",
    ),
    Defect(
        "devices in the batch are those of the whole host",
        "arguments/call_devices.py",
        "    if training and rows and rows < size:",
        "    if rows and rows > size:",
    ),
    # What the scan says of a codebase.
    Defect(
        "scan: an import that is relative begins where others do",
        "scan/imports.py",
        "        if level:\n            return\n",
        "        if not level:\n            return\n",
    ),
    Defect(
        "scan: a size is not followed into what is called",
        "scan/following.py",
        "        if has_rows or size is not None:",
        "        if has_rows:",
    ),
    Defect(
        "scan: what is called a second time with another kind of arguments is not looked at",
        "scan/following.py",
        "        if context in contexts or len(contexts) >= _MOST:",
        "        if contexts:",
    ),
    Defect(
        "scan: the second size that an argument is given is not found",
        "scan/following.py",
        "            self._sizes.setdefault(argument, {})[size] = None",
        "            self._sizes.setdefault(argument, {size: None})",
    ),
    Defect(
        "scan: names that stand for one another are followed forever",
        "scan/definitions.py",
        "        if not name or (name, importer) in seen or len(seen) > _MOST:",
        "        if not name:",
    ),
    Defect(
        "scan: a file that has changed is followed as if it had not",
        "scan/loading.py",
        "reading.source(path, data) if digest(data) == self.digests[path] else None",
        "reading.source(path, data)",
    ),
    Defect(
        "scan: a comment in another file ignores nothing",
        "scan/batch_sizes.py",
        "    return Given(finding, module.source.is_ignored(finding))",
        "    return Given(finding, False)",
    ),
    Defect(
        "scan: install() is called after what it is for",
        "scan/installing.py",
        "    return Edit(start, start, ",
        "    start = len(text)\n    return Edit(start, start, ",
    ),
    # What takes the place of `tf.contrib`, and of `tensorflow`.
    Defect(
        "contrib: a name below a package that has no line is that of its last part",
        "compat/contrib/table.py",
        "    if parts[-1] in rows and _is_path(name):\n",
        "    if parts[-1] in rows:\n",
    ),
    Defect(
        "contrib: a package that is not installed is not named",
        "compat/contrib/modules.py",
        "    if place.package and not _is_installed(_IMPORTED[place.package]):\n",
        "    if False:\n",
    ),
    Defect(
        "contrib: a penalty of L1 and L2 is that of L1 alone",
        "compat/contrib/regularizers.py",
        "[l1_regularizer(scale_l1), l2_regularizer(scale_l2)]",
        "[l1_regularizer(scale_l1)]",
        on_1_15="tests/compat/test_contrib_real.py",
    ),
    Defect(
        "contrib: arguments in another order are called by position",
        "compat/contrib/respelling.py",
        "        return function(**{names[new]: value for new, value in given.items()})\n",
        "        return function(*given.values())\n",
    ),
    Defect(
        "version 1: libraries see it, too",
        "compat/tensorflow_1.py",
        '    if is_program and not (full == "tensorflow" and name in _SHARED):\n',
        '    if not (full == "tensorflow" and name in _SHARED):\n',
    ),
    Defect(
        "version 1: what a program sets goes to version 2's module",
        "compat/tensorflow_1.py",
        "            setattr(_seen(self, not is_import and callers.is_program(), name)",
        "            setattr(_seen(self, False, name)",
    ),
)
