"""Copies parts of a graph in place, and changes what takes a tensor after the fact."""

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib

_LOC = b"loc:@"
# Of a frame's name, and of the seeds of random operations. Far apart, so that copies whose seeds
# differ do not meet the seeds that TensorFlow gives out one by one.
_SEED_STRIDE = 1000003


def redirect(op, index, tensor):
    """Makes `tensor` input `index` of the existing operation `op`."""
    op._update_input(index, tensor)


def replace(tensor, other):
    """Lets whatever takes `tensor` take `other` instead."""
    for op in tensor.consumers():
        for index, given in enumerate(op.inputs):
            if given is tensor:
                op._update_input(index, other)


def colocated_with(op):
    """Returns the names of the operations that `op` is to be on one device with."""
    try:
        groups = op.get_attr("_class")
    except ValueError:
        return []
    names = [group[len(_LOC) :].decode() for group in groups if group.startswith(_LOC)]
    return [name for name in names if name != op.name]


class Copier:
    """Copies operations of a graph for other towers.

    Args:
        graph: The graph.
        devices: Device strings of the towers. What is on the first one's device is copied onto that
            of the copy's tower; all else stays where it is.
    """

    def __init__(self, graph, devices):
        self._graph = graph
        self._devices = devices
        self.places = {devices[0]: devices}
        """Devices of all towers, by tower 0's, as operations have them."""

    def copy(self, ops, index, counterpart, control, instead):
        """Copies operations for tower `index`.

        Args:
            ops: List of operations, in the order in which they were made.
            index: The tower.
            counterpart: Function of an input that returns the tensor that a copy takes instead, or
                None if that is the copy of the operation that made it.
            control: Likewise, of a control input.
            instead: By name of an operation, and position of its input: another tensor to take.

        Returns:
            The prefix of the copies' names.
        """
        names = {op.name for op in ops}
        inputs, colocations, waits, places = {}, {}, {}, {}
        definition = tf.GraphDef()
        definition.versions.CopyFrom(self._graph.graph_def_versions)
        bodies = _Bodies(self._graph, index)
        for op in ops:
            node = definition.node.add()
            node.CopyFrom(op.node_def)
            if node.device:
                places[node.name] = node.device
                node.device = ""  # Which an import would open a scope for.
            self._change_attributes(node, op, index, names, colocations)
            bodies.change(node)
            own = instead.get(op.name, {})
            for position, tensor in own.items():
                node.input[position] = f"instead/{node.name}/{position}"
                inputs[f"instead/{node.name}/{position}:0"] = tensor
            for position, tensor in enumerate(op.inputs):
                other = None if position in own else counterpart(tensor)
                if other is not None:
                    inputs[tensor.name] = other
            for before in op.control_inputs:
                other = control(before)
                if other is not None and other.outputs:
                    inputs["^" + before.name] = other.outputs[0]
                elif other is not None:  # Which an import cannot name.
                    node.input.remove("^" + before.name)
                    waits.setdefault(op.name, []).append(other)
        definition.library.function.extend(bodies.added)
        with graph_lib.outside_of_scopes(self._graph):
            with tf.name_scope(f"tower_{index}") as scope:
                pass
            tf.import_graph_def(definition, inputs, name=scope)
        prefix = scope.rstrip("/")
        for name, device in places.items():
            own = self.places.get(device, [device] * len(self._devices))[index]
            self._graph.get_operation_by_name(f"{prefix}/{name}")._set_device(own)
        for name, ops_before in waits.items():
            copied = self._graph.get_operation_by_name(f"{prefix}/{name}")
            graph_lib.add_control_inputs(copied, ops_before)
        for name, groups in colocations.items():
            copied = self._graph.get_operation_by_name(f"{prefix}/{name}")
            _set_colocation(copied, [_LOC + group.encode() for group in groups])
            target = self._graph.get_operation_by_name(groups[0])
            if target.device:
                copied._set_device(target.device)
        return prefix

    def _change_attributes(self, node, op, index, names, colocations):
        if "_class" in node.attr:
            groups = colocated_with(op)
            own = [group for group in groups if group in names]
            if groups and not own:
                colocations[node.name] = [g for g in groups if self._is_there(g)]
                if not colocations[node.name]:
                    del colocations[node.name]
            del node.attr["_class"]
            if own:  # The prefix is added when the definition is imported.
                node.attr["_class"].list.s.extend(_LOC + group.encode() for group in own)
        if "frame_name" in node.attr:  # Two loops of one name in one frame are one loop.
            node.attr["frame_name"].s += b"_tower_%d" % index
        change_seed(node, index)

    def _is_there(self, name):
        try:
            self._graph.get_operation_by_name(name)
        except KeyError:
            return False
        return True


def change_seed(node, index):
    """Lets the copy of a random operation, a `NodeDef`, draw other numbers, if it has a seed."""
    if "seed2" not in node.attr or "seed" not in node.attr:
        return
    seed, second = node.attr["seed"], node.attr["seed2"]
    if seed.WhichOneof("value") == "i" and (seed.i or second.i):  # Both 0: it draws its own seed.
        second.i += index * _SEED_STRIDE


class _Bodies:
    """The functions of a graph, and those of one tower, whose random operations have own seeds."""

    def __init__(self, graph, index):
        self._graph = graph
        self._index = index
        self._known = None
        self._names = {}  # Of the tower's functions, by those that they are made of.
        self.added = []

    def change(self, node):
        """Lets a node call the tower's functions."""
        for attr in node.attr.values():
            for function in [attr.func, *attr.list.func]:
                if function.name:
                    function.name = self._own(function.name)

    def _own(self, name):
        if name not in self._names:
            if self._known is None:
                self._known = function_bodies(self._graph)
            self._names[name] = name
            body = self._known.get(name)
            if body is not None and has_seeds(body, self._known):
                self._names[name] = f"{name}_tower_{self._index}"
                own = type(body)()
                own.CopyFrom(body)
                own.signature.name = self._names[name]
                for node in own.node_def:
                    change_seed(node, self._index)
                    self.change(node)
                self.added.append(own)
        return self._names[name]


def function_bodies(graph):
    """Returns the functions in `graph`, `FunctionDef`s, by their names."""
    return {body.signature.name: body for body in graph.as_graph_def().library.function}


def functions_of(node):
    """Returns the names of the functions that the `NodeDef` calls."""
    names = [attr.func.name for attr in node.attr.values()]
    names += [function.name for attr in node.attr.values() for function in attr.list.func]
    return [name for name in names if name]


def has_seeds(body, bodies, seen=None):
    """Whether a function, a `FunctionDef`, draws random numbers from a seed."""
    seen = set() if seen is None else seen
    seen.add(body.signature.name)
    for node in body.node_def:
        if "seed2" in node.attr and (node.attr["seed"].i or node.attr["seed2"].i):
            return True
        for name in functions_of(node):
            if name in bodies and name not in seen and has_seeds(bodies[name], bodies, seen):
                return True
    return False


def _set_colocation(op, groups):
    value = tf.AttrValue()
    value.list.s.extend(groups)
    op._set_attr("_class", value)


def again(op, inputs):
    """Makes an operation like `op` of other inputs; returns its outputs."""
    attrs = {name: value for name, value in op.node_def.attr.items() if name != "_class"}
    made = op.graph.create_op(
        op.type,
        list(inputs),
        [output.dtype for output in op.outputs],
        name=op.type,
        attrs=attrs,
        op_def=op.op_def,
    )
    return made.outputs
