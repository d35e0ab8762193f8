"""Copies parts of a graph in place, and changes what takes a tensor after the fact."""

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import py_functions
from replicate.compat.functions import Bodies, change_seed, function_bodies, functions_of

_LOC = b"loc:@"


def redirect(op, index, tensor):
    """Makes `tensor` input `index` of the existing operation `op`."""
    op._update_input(index, tensor)


def replace(pairs):
    """Lets whatever takes the first tensor of a pair take the second one instead.

    Args:
        pairs: List of pairs.
    """
    takers, others = {}, {}
    for tensor, other in pairs:
        others[id(tensor)] = other
        takers.update((op.name, op) for op in tensor.consumers())
    for op in takers.values():  # Whose inputs are listed anew after each change.
        for index, given in enumerate(list(op.inputs)):
            if id(given) in others:
                op._update_input(index, others[id(given)])


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
        self._tokens = [py_functions.Tokens(graph) for _ in devices]

    def template(self, ops, is_copied, instead):
        """Returns the `Template` of copies of operations.

        Args:
            ops: List of operations, in the order in which they were made.
            is_copied: Function of a tensor or an operation that leads to them, whether each tower
                has a copy of it from among `ops`.
            instead: By name of an operation, positions of inputs that copies have others for.
        """
        return Template(self._graph, self.places, self._tokens, ops, is_copied, instead)

    def copy(self, template, index, counterpart, control, instead):
        """Makes the operations of a `Template` for tower `index`.

        Args:
            template: The template.
            index: The tower.
            counterpart: Function of an input from elsewhere that returns the tensor to take.
            control: Likewise, of a control input.
            instead: By name of an operation, and position of its input: another tensor to take.

        Returns:
            The prefix of the copies' names.
        """
        inputs = {name: counterpart(tensor) for name, tensor in template.inputs.items()}
        for name, before in template.controls.items():
            inputs["^" + name] = control(before).outputs[0]
        for name, tensors in instead.items():
            for position, tensor in tensors.items():
                inputs[f"{_instead(name, position)}:0"] = tensor
        definition = template.of_tower(index)
        with graph_lib.outside_of_scopes(self._graph):
            with tf.name_scope(f"tower_{index}") as scope:
                pass
            tf.import_graph_def(definition, inputs, name=scope)
        prefix = scope.rstrip("/")
        for name, device in template.places.items():
            own = self.places.get(device, [device] * len(self._devices))[index]
            self._graph.get_operation_by_name(f"{prefix}/{name}")._set_device(own)
        for name, ops_before in template.waits.items():
            copied = self._graph.get_operation_by_name(f"{prefix}/{name}")
            graph_lib.add_control_inputs(copied, [control(before) for before in ops_before])
        for name, groups in template.colocations.items():
            copied = self._graph.get_operation_by_name(f"{prefix}/{name}")
            _set_colocation(copied, [_LOC + group.encode() for group in groups])
            target = self._graph.get_operation_by_name(groups[0])
            if target.device:
                copied._set_device(target.device)
        return prefix


class Template:
    """What copies of some operations have in common.

    Args:
        graph: The graph.
        devices: Those of all towers, by tower 0's.
        tokens: The `Tokens` of each tower.
        ops: See `Copier.template`.
        is_copied: Likewise.
        instead: Likewise.

    Attributes:
        inputs: Tensors that copies take from elsewhere, by name.
        controls: Operations with outputs that copies wait for, by name.
        waits: By name of an operation: those without outputs, which an import cannot name.
        places: Device of an operation, by its name.
        colocations: By name of an operation: those elsewhere that it is to be with.
    """

    def __init__(self, graph, devices, tokens, ops, is_copied, instead):
        self._graph = graph
        self._devices = devices
        self._tokens = tokens
        self.inputs, self.controls, self.waits = {}, {}, {}
        self.places, self.colocations = {}, {}
        self._changing = []  # Positions of the nodes that are others in each tower.
        self._bodies = None
        self._definition = tf.GraphDef()
        self._definition.versions.CopyFrom(graph.graph_def_versions)
        names = {op.name for op in ops}
        for position, op in enumerate(ops):
            node = self._definition.node.add()
            node.CopyFrom(op.node_def)
            if node.device:
                self.places[node.name] = node.device
                node.device = ""  # Which an import would open a scope for.
            self._change_colocation(node, op, names)
            is_named = "frame_name" in node.attr or py_functions.is_kept_by_token(node)
            if is_named or "seed2" in node.attr or functions_of(node):
                self._changing.append(position)
            self._find_inputs(node, op, is_copied, instead.get(op.name, ()))

    def _find_inputs(self, node, op, is_copied, instead):
        for position, tensor in enumerate(op.inputs):
            if position in instead:
                node.input[position] = _instead(node.name, position)
            elif not is_copied(tensor):
                self.inputs[tensor.name] = tensor
        for before in op.control_inputs:
            if is_copied(before):
                continue
            if before.outputs:
                self.controls[before.name] = before
            else:
                node.input.remove("^" + before.name)
                self.waits.setdefault(op.name, []).append(before)

    def _change_colocation(self, node, op, names):
        if "_class" not in node.attr:
            return
        groups = colocated_with(op)
        own = [group for group in groups if group in names]
        there = [group for group in groups if self._is_there(group)]
        if there and not own:
            self.colocations[node.name] = there
        del node.attr["_class"]
        if own:  # The prefix is added when the definition is imported.
            node.attr["_class"].list.s.extend(_LOC + group.encode() for group in own)

    def _is_there(self, name):
        try:
            self._graph.get_operation_by_name(name)
        except KeyError:
            return False
        return True

    def of_tower(self, index):
        """Returns the definition of a tower's copies, whose inputs are names."""
        definition = tf.GraphDef()
        definition.CopyFrom(self._definition)
        devices = {first: of_towers[index] for first, of_towers in self._devices.items()}
        bodies = Bodies(self._functions, f"_tower_{index}", devices, seed=index)
        for position in self._changing:
            node = definition.node[position]
            if "frame_name" in node.attr:  # Two loops of one name in one frame are one loop.
                node.attr["frame_name"].s += b"_tower_%d" % index
            self._tokens[index].change(node)
            change_seed(node, index)
            bodies.change(node)
        definition.library.function.extend(bodies.added)
        return definition

    def _functions(self):
        if self._bodies is None:
            self._bodies = function_bodies(self._graph)
        return self._bodies


def _instead(name, position):
    return f"instead/{name}/{position}"


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
