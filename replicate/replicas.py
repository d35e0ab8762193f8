"""Variables of which every tower has a replica on its own device.

No weight crosses devices then: what does is the gathered gradient, with which each tower updates
its own replica, by its own optimizer with slots of its own. All are computed from the same numbers,
so they stay equal. Tower 0's have the usual names, and are what checkpoints hold; the others begin
every session with their values.
"""

import contextlib

import tensorflow.compat.v1 as tf

from replicate import gradients, updates
from replicate.compat import graph as graph_lib


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
        self.are_updated = False
        """Whether variables that are made just now are those of a tower's own optimizer."""
        self._of = {}  # By the `id` of tower 0's: its replicas by tower, itself included.
        self._first = {}  # By the `id` of a replica: tower 0's.
        self._updating = None  # The tower's index, and how many variables its optimizer has made.
        self._states = []  # Those that tower 0's optimizer made.
        self._operations = set()  # By which optimizers update tower 0's.

    def add(self, first, index, variable):
        """Takes `variable` for tower `index`'s replica of `first`."""
        self._of.setdefault(id(first), {0: first})[index] = variable
        self._first[id(variable)] = first
        self.later.append(variable)
        graph_lib.name_like(variable, first)

    def as_first(self, grads_and_vars):
        """Returns one tower's `(gradient, variable)` pairs as those of tower 0's variables."""
        return [
            (grad, self._first.get(id(variable), variable)) for grad, variable in grads_and_vars
        ]

    def create(self, next_creator, kwargs):
        """Makes a variable of a tower's own optimizer, by `next_creator`."""
        index, position = self._updating
        self._updating = index, position + 1
        if index == 0:
            self._states.append(next_creator(**kwargs))
            return self._states[-1]
        first = self._states[position] if position < len(self._states) else None
        shape = kwargs.get("shape")
        if shape is None:
            shape = getattr(kwargs.get("initial_value"), "shape", None)
        if first is None or not first.shape.is_compatible_with(shape):
            raise RuntimeError(
                "The towers' optimizers must make the same variables in the same order, but that "
                f"of tower {index} makes '{kwargs.get('name')}' of shape {shape} where that of "
                f"tower 0 makes {'no more' if first is None else first}. Make what they make "
                "independent of `tower_index()`, or place variables by 'consolidation' or "
                "'round_robin'."
            )
        # Tower 0's may be one that a checkpoint restores.
        kwargs.update(initial_value=initial_value(first), collections=[], use_resource=True)
        variable = next_creator(**kwargs)
        listed = tf.get_collection_ref(tf.GraphKeys.GLOBAL_VARIABLES)
        if listed and listed[-1] is variable:  # `tf.compat.v2.Variable` minds no `collections`.
            listed.pop()
        self.add(first, index, variable)
        return variable

    def apply(self, optimizers, group, how):
        """Returns a function that takes what `apply_gradients` does, for all towers' variables.

        Args:
            optimizers: The wrapped optimizers of the towers.
            group: The `Towers`, in a merge function.
            how: The `Gather`, by which updated gradients go to the towers, too.

        Raises:
            ValueError: If towers cannot update variables by themselves.
        """
        _check(optimizers)

        def apply_gradients(grads_and_vars, *args, **kwargs):
            pairs = list(grads_and_vars)
            by_tower = gradients.broadcast(pairs, group, how)
            graph, applied = tf.get_default_graph(), []
            for index, optimizer in enumerate(optimizers):
                own = [
                    (gradient, self._of.get(id(variable), {0: variable}).get(index))
                    for gradient, (_, variable) in zip(by_tower[index], pairs)
                ]
                own = [(gradient, variable) for gradient, variable in own if variable is not None]
                start = len(graph.get_operations())
                with self._update(index, group):
                    given = (args, kwargs) if index == 0 else self._with_own_step(args, kwargs)
                    applied.append(optimizer.apply_gradients(own, *given[0], **given[1]))
                if index == 1:  # Others do the same.
                    running = updates.ancestors(tf.nest.flatten(applied[1]))
                    made = running.intersection(graph.get_operations()[start:])
                    _check_not_shared(graph, made)
            return tf.group(*tf.nest.flatten(applied))

        return apply_gradients

    @contextlib.contextmanager
    def updates(self, group):
        """Scope in which optimizers make what updates variables."""
        start = len(group.graph.get_operations())
        yield
        self._operations.update(group.graph.get_operations()[start:])

    @contextlib.contextmanager
    def _update(self, index, group):
        """Scope in which tower `index`'s own optimizer makes what updates its variables."""
        if index == 0:
            self._states = []
        self._updating, self.are_updated = (index, 0), True
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(tf.device(group.devices[index]))
                if index:
                    # Tower 0's later names must stay free.
                    stack.enter_context(tf.name_scope(f"replicate/replicas/tower_{index}/"))
                    marks, graph = group.towers[index].marks, tf.get_default_graph()
                    stack.enter_context(graph_lib.variable_store_of(marks, graph))
                yield
        finally:
            self._updating, self.are_updated = None, False

    def _with_own_step(self, args, kwargs):
        """Returns arguments of `apply_gradients` with the tower's own step for the global one."""
        step, (index, _) = tf.train.get_global_step(), self._updating
        if step is None or not any(value is step for value in [*args, *kwargs.values()]):
            return args, kwargs
        own = self._of.get(id(step), {}).get(index)
        if own is None:
            self.are_updated = False
            own = tf.Variable(
                initial_value(step), trainable=False, collections=[], use_resource=True, name="step"
            )
            self.are_updated = True
            self.add(step, index, own)
        args = tuple(own if value is step else value for value in args)
        return args, {name: own if value is step else value for name, value in kwargs.items()}

    def check_assigned(self, train_op):
        """Raises if something else than an optimizer changes a variable in a step.

        Args:
            train_op: The train operation of all towers.

        Raises:
            ValueError: If so; names the variable and the operation.
        """
        reached = updates.ancestors([train_op])
        step = tf.train.get_global_step()
        for record in self._of.values():
            for op in updates.changes(record[0]) if record[0] is not step else ():
                if op in reached and op not in self._operations:
                    raise ValueError(
                        "With `variable_placement='replicated'`, optimizers alone may change what "
                        f"is trained, which they do in every tower, but '{record[0].name}' is "
                        f"changed by {op.name}, too. Place variables by 'consolidation' or "
                        "'round_robin'."
                    )


def _check(optimizers):
    """Raises unless each tower has an optimizer that can update its variables."""
    if any(isinstance(optimizer, tf.train.SyncReplicasOptimizer) for optimizer in optimizers):
        raise ValueError(
            "With `variable_placement='replicated'`, each tower updates its own variables, but a "
            "`SyncReplicasOptimizer` updates those that workers share. Place variables by "
            "'consolidation' or 'round_robin'."
        )
    if len(set(map(id, optimizers))) < len(optimizers):
        raise ValueError(
            "With `variable_placement='replicated'`, each tower updates its own variables with an "
            f"optimizer of its own, but {optimizers[0]!r} is that of several. Make it inside "
            "`model_fn`."
        )


def _check_not_shared(graph, operations):
    """Raises if what updates tower 1's own variables changes one that all towers share."""
    shared = {graph_lib.handle_in(graph, v): v for v in tf.global_variables()}
    for op in operations:
        for tensor in op.inputs:
            variable = shared.get(tensor.ref())
            if variable is not None and updates.may_write(op):
                raise ValueError(
                    "With `variable_placement='replicated'`, an optimizer updates each tower's "
                    f"variables, but this one changes '{variable.name}', which the towers share, "
                    f"each time, by {op.name}. Let it make its variables in `apply_gradients`, and "
                    "count steps by the argument `global_step`; or place variables by "
                    "'consolidation' or 'round_robin'."
                )
