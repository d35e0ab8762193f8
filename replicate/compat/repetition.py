"""Makes operations of a graph again, of other inputs."""

import tensorflow.compat.v1 as tf

from replicate.compat import functions
from replicate.compat import graph as graph_lib
from replicate.compat.graph import reference

_HANDLES = ("VarHandleOp", "VariableV2", "Variable")
_READS = ("ReadVariableOp",)


class ReplicationError(ValueError):
    """Replicas of variables cannot follow what a model does.

    Args:
        rule: What is so with replicas, up to the words ", but ".
        reason: What this model does.
        way_out: A sentence.
    """

    def __init__(self, rule, reason, way_out="Place variables by 'consolidation' or 'round_robin'"):
        super().__init__(f"With `variable_placement='replicated'`, {rule}{reason}. {way_out}.")
        self.reason = reason


class Repetition:
    """Operations that are made from now on, to be made again of other inputs.

    They may be in a branch of a condition: what is made again is in the same one.

    Args:
        graph: The graph in which they are made.
    """

    def __init__(self, graph):
        self._graph = graph
        self._bodies = None
        self._first = len(graph.get_operations())

    def leading_to(self, fetches):
        """Returns those that were made since, and that run with `fetches`, in their order."""
        made = self._graph.get_operations()[self._first :]
        wanted, pending = set(), [getattr(fetch, "op", fetch) for fetch in fetches]
        known = set(made)
        while pending:
            op = pending.pop()
            if op in known and op not in wanted:
                wanted.add(op)
                pending += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
        return [op for op in made if op in wanted]

    def outer(self, tensor):
        """Returns the tensor outside of the condition that `tensor` stands for in its branch."""
        while tensor.op.type in ("Switch", "RefSwitch"):
            tensor = tensor.op.inputs[0]
        for outside, inside in getattr(self._graph, "captures", ()):
            if inside is tensor:
                return outside
        return tensor

    def repeat(self, operations, fetches, taken, index, devices):
        """Makes operations again; returns what is then in the place of `fetches`.

        Args:
            operations: What `leading_to` returned.
            fetches: Operations and tensors.
            taken: By the reference of a tensor: what is taken instead.
            index: The tower for which they are made, which names its functions.
            devices: Its devices, by those that functions name.
        """
        made = {}
        bodies = functions.Bodies(self._functions, f"_replica_{index}", devices)

        def other(tensor):
            if tensor.op in made:
                return made[tensor.op].outputs[tensor.value_index]
            outside = self.outer(tensor)
            if reference(outside) not in taken and outside.op in made:
                return made[outside.op].outputs[outside.value_index]
            return taken.get(reference(outside), outside)

        for op in operations:
            if op.type in ("Switch", "RefSwitch"):
                continue
            if any(reference(output) in taken for output in op.outputs):
                continue  # A variable that was made here.
            if op.type in ("Merge", "RefMerge", "Enter", "RefEnter", "Exit", "NextIteration"):
                raise ReplicationError(
                    "what an optimizer does is done again for each tower, but ",
                    f"this one has a condition or a loop, {op.name}",
                )
            if op.op_def.is_stateful and any(attr.name == "seed2" for attr in op.op_def.attr):
                continue  # The same random numbers for all replicas.
            if op.type == "Placeholder" or _is_of_shared(op, made, taken):
                continue
            waits = [made[c] for c in op.control_inputs if c in made]
            with tf.control_dependencies(waits):
                made[op] = self._make(op, [other(tensor) for tensor in op.inputs], bodies)
        return [
            made.get(fetch, fetch) if isinstance(fetch, tf.Operation) else other(fetch)
            for fetch in fetches
        ]

    def _functions(self):
        if self._bodies is None:
            self._bodies = functions.function_bodies(self._graph)
        return self._bodies

    def _make(self, op, inputs, bodies):
        node = op.node_def
        if functions.functions_of(node):
            bodies.change(node)
            library = tf.GraphDef(versions=self._graph.graph_def_versions)
            library.library.function.extend(bodies.added)
            with graph_lib.outside_of_scopes(self._graph):
                tf.import_graph_def(library, name="")
        attrs = {name: value for name, value in node.attr.items() if name != "_class"}
        make = getattr(self._graph, "_create_op_internal", None) or self._graph.create_op
        return make(
            op.type,
            inputs,
            [output.dtype for output in op.outputs],
            name=op.name.rpartition("/")[2],
            attrs=attrs,
            op_def=op.op_def,
        )


def _is_of_shared(op, made, taken):
    """Whether an operation makes state that is shared, or reads it where it is."""
    if op.type in _HANDLES:
        return True
    read = op.inputs[0] if op.type in _READS else None
    return read is not None and read.op not in made and reference(read) not in taken
