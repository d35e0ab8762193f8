"""Variables of which every tower has a replica on its own device.

No weight crosses devices then: what does is the gathered gradient, with which each tower updates
its own replica, by a copy of the optimizer's operations with slots of its own. All are computed
from the same numbers, so they stay equal. Tower 0's have the usual names, and are what checkpoints
hold; the others begin every session with their values.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat.functions import function_bodies
from replicate.compat.graph import id_of, reference
from replicate.compat.repetition import Repetition, ReplicationError
from replicate.gathering import collectives
from replicate.graphs import line_of, state, updates


def initial_value(first):
    """Returns the value of tower 0's variable `first`, read where that is.

    To be read when a replica is initialised. It must not be read in a function that makes the
    initial value: TensorFlow would place that with the replica, and all that is with the replica
    on the device of `first`.
    """
    with tf.init_scope(), tf.colocate_with(None, ignore_existing=True), tf.device(first.device):
        # What reads a variable without a handle is the variable's own memory, which the replica
        # would take for its own, and get all updates of.
        return tf.raw_ops.Snapshot(input=first.read_value())


class Replicas:
    """The replicas of one graph's variables, those of optimizers included."""

    def __init__(self):
        self.later = []
        """The later towers' replicas."""
        self._of = {}  # By the id of tower 0's operation: tower 0's variable, and all towers'.
        self._made = []  # What optimizers made while they applied gradients.
        self._updates = set()  # Operations by which optimizers update tower 0's.
        self._reads_step = False  # Whether optimizers do.
        self._applied = []  # Pairs of an update of all towers, and tower 0's part of it.

    def make(self, first, group):
        """Makes the replicas of tower 0's variable `first`, which copies have in its place."""
        replicas = [first]
        for index in range(1, group.size):
            with group.of_session(index):
                replicas.append(
                    tf.Variable(
                        initial_value(first),
                        trainable=False,
                        collections=[tf.GraphKeys.LOCAL_VARIABLES],
                        use_resource=hasattr(first, "handle"),
                        name=f"replicate/tower_{index}/{first.op.name}",
                    )
                )
        self._of[id_of(first.op)] = first, replicas
        self.later += replicas[1:]
        # Optimizers have the step to themselves: models read what tower 0 counts, whoever counts.
        if first is not tf.train.get_global_step():
            group.copies.substitute([variable.op.outputs[0] for variable in replicas])

    def made_by_optimizer(self, variable):
        """Takes a variable that an optimizer made while it applied gradients."""
        self._made.append(variable)

    def apply(self, optimizer, group, how):
        """Returns a function that takes what `apply_gradients` does, for all towers' variables.

        Args:
            optimizer: The wrapped optimizer.
            group: The `Towers`, in a merge function.
            how: The `Gather`, by which updated gradients go to the towers, too.

        Raises:
            ReplicationError: If towers cannot update variables by themselves.
        """
        if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
            raise ReplicationError(
                "each tower updates its own variables, but ",
                "a `SyncReplicasOptimizer` updates those that workers share",
            )

        def apply_gradients(grads_and_vars, *args, **kwargs):
            pairs = list(grads_and_vars)
            by_tower = collectives.broadcast(pairs, group, how)
            own = [(gradient, v) for gradient, (_, v) in zip(by_tower[0], pairs)]
            self._made = []
            repetition = Repetition(tf.get_default_graph())
            with tf.device(group.devices[0]):
                applied = optimizer.apply_gradients(own, *args, **kwargs)
            fetches = [
                each
                for each in tf.nest.flatten(applied)
                if isinstance(each, (tf.Operation, tf.Tensor))
            ]
            operations = repetition.leading_to(fetches)
            self._updates.update(operations)
            own, done = tf.group(*fetches), []
            with group.variables.shared_if_not_followed(group):
                done = self._of_later(repetition, operations, fetches, by_tower, group)
            whole = tf.group(own, *done)
            self._applied.append((whole, own))
            return whole

        return apply_gradients

    def _of_later(self, repetition, operations, fetches, by_tower, group):
        """Does in the later towers what `operations` do in tower 0; returns what is then done."""
        self._replicate_state(operations, repetition, group)
        step = tf.train.get_global_step()
        self._reads_step |= step is not None and any(
            state.source(repetition.outer(handle)) is step.op
            for op in operations
            if not state.writes(op)
            for handle in state.handles(op)
        )
        done = []
        for index in range(1, group.size):
            taken = {}
            for first, other in zip(by_tower[0], by_tower[index]):
                for a, b in zip(_parts(first), _parts(other)):
                    taken[reference(a)] = b
            for _, replicas in self._of.values():
                taken[reference(replicas[0].op.outputs[0])] = replicas[index].op.outputs[0]
            names = tf.name_scope(f"replicate/replicas/tower_{index}/")
            with tf.device(group.devices[index]), names:
                devices = {group.devices[0]: group.devices[index]}
                done += repetition.repeat(operations, fetches, taken, index, devices)
        return done

    def give_up(self, group):
        """Lets copies have tower 0's variables, and steps update these alone.

        Args:
            group: The `Towers`, not finished.
        """
        step = tf.train.get_global_step()
        for first, _ in self._of.values():
            if first is not step:
                group.copies.share_again(first.op.outputs[0])
        for whole, own in self._applied:
            graph_lib.set_control_inputs(whole, [own])
        later = {id(variable) for variable in self.later}
        local = tf.get_collection_ref(tf.GraphKeys.LOCAL_VARIABLES)
        local[:] = [variable for variable in local if id(variable) not in later]
        self.later = []

    def _replicate_state(self, operations, repetition, group):
        """Makes replicas of what these operations change, besides what is trained."""
        made = {id_of(variable.op): variable for variable in self._made if hasattr(variable, "op")}
        step = tf.train.get_global_step()
        bodies = None
        for op in operations:
            inside = []
            if state.kind(op).calls_functions:
                bodies = bodies or function_bodies(op.graph)
                found = updates.written_inside(op.node_def, [False] * len(op.inputs), bodies)
                inside = [op.inputs[position] for position in found]
            for handle in state.handles(op) if state.writes(op) else inside:
                memory = state.source(repetition.outer(handle))
                if id_of(memory) in self._of:
                    continue
                if id_of(memory) in made:
                    self.make(made[id_of(memory)], group)
                elif step is not None and memory is step.op:
                    self.make(step, group)
                elif state.assigns(op) or (inside and memory.type == "VarHandleOp"):
                    raise ReplicationError(
                        "an optimizer updates each tower's variables, but ",
                        f"this one changes '{memory.name}', which the towers share, each time, by "
                        f"{op.name}",
                        "Let it make its variables in `apply_gradients`, and count steps by the "
                        "argument `global_step`; or place variables by 'consolidation' or "
                        "'round_robin'",
                    )

    def check_assigned(self, fetches, group, at_any_time):
        """Raises if something else than an optimizer changes what is replicated in a step.

        Args:
            fetches: Operations and tensors that a step runs.
            group: The `Towers`.
            at_any_time: Whether it must not be changed by what a hook may run either.

        Raises:
            ReplicationError: If so; names the variable and the operation.
        """
        reached = updates.ancestors(fetches)
        for first, op in self.others():
            is_meant = op in reached or (at_any_time and not _is_at_start(first, op))
            if is_meant and not group.copies.is_once(op):
                raise ReplicationError(
                    "optimizers alone may change what is trained, which they do in every tower, "
                    "but ",
                    f"'{first.name}' is changed by {op.name} ({line_of(op)}), too",
                )

    def others(self):
        """Yields tower 0's variables, and operations that change them and are no optimizer's."""
        step = tf.train.get_global_step()
        for first, _ in self._of.values():
            # That only counts what optimizers do, if they do not look at it.
            is_matter = first is not step or self._reads_step
            for op in updates.changes(first) if is_matter else ():
                if op not in self._updates:
                    yield first, op


class ReplicasHook(tf.train.SessionRunHook):
    """Lets replicas begin with what hooks before this one did to tower 0's variables.

    Warns of what hooks made to change these, which replicas do not see later.

    Args:
        replicas: The `Replicas`.
        group: The `Towers`.
    """

    def __init__(self, replicas, group):
        self._replicas = replicas
        self._group = group

    def begin(self):
        """Makes what it runs."""
        self._initializer = tf.variables_initializer(self._replicas.later)

    def after_create_session(self, session, coord):
        """Copies all values, and looks at the whole graph, once."""
        del coord
        session.run(self._initializer)
        group, self._group = self._group, None
        for first, op in self._replicas.others() if group else ():
            if not group.copies.is_once(op) and not _is_at_start(first, op):
                tf.logging.warning(
                    "replicate: '%s' has a replica in each tower, but %s (%s) changes tower 0's "
                    "alone if it runs once training has begun. Let it run in "
                    "`after_create_session` at the latest, or place variables by 'consolidation'.",
                    first.name,
                    op.name,
                    line_of(op),
                )


def _is_at_start(variable, op):
    """Whether an operation gives a variable its initial value, or that of a checkpoint."""
    if op.name == f"{variable.op.name}/Assign":
        return True
    given = [tensor.op for tensor in op.inputs[1:]]
    while given and given[0].type in ("Identity", "Reshape", "Cast"):
        given = [tensor.op for tensor in given[0].inputs[:1]]
    return bool(given) and given[0].type in ("Restore", "RestoreSlice", "RestoreV2")


def _parts(gradient):
    if gradient is None:
        return []
    if isinstance(gradient, tf.IndexedSlices):
        parts = [gradient.values, gradient.indices, gradient.dense_shape]
        return [part for part in parts if part is not None]
    return [gradient]
