"""What towers need of a TensorFlow graph under construction and has no public name.

A thread that builds a graph leaves marks on it: device, colocation and control-dependency stacks,
collections, variable scopes, the counts that random seeds and layer names come from. A tower sees
the graph as if it were alone, so each tower has its own marks, put in place whenever it runs.
"""

import collections
import contextlib
import copy

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import random_seed
from tensorflow.python.ops import variable_scope as vs
from tensorflow.python.util import nest

try:
    from tensorflow.python.eager import record
except ImportError:  # TensorFlow 2.12 and older
    from tensorflow.python.eager import tape as record

from replicate.compat import keras

# The marks `tf.Graph` keeps, in attributes with no public setter.
_MARKS = (
    "_collections",
    "_device_function_stack",
    "_colocation_stack",
    "_control_dependencies_stack",
    "_control_flow_context",
    "_attr_scope_map",
    "_op_to_kernel_label_map",
    "_gradient_override_map",
    "_default_original_op",
    "_container",
)
_STORES = (vs._VARSTORE_KEY, vs._VARSCOPESTORE_KEY)

# Later towers draw their op-level seeds this far apart, so that dropout masks differ by tower.
_SEED_STRIDE = 1000003


def _seed_counts():
    """Op-level seeds given out so far, by graph; where TensorFlow takes op ids instead, nothing."""
    return getattr(random_seed, "_graph_to_seed_dict", {})


class Marks:
    """The marks that a graph has now, which go on changing with it until others are `put`."""

    def __init__(self, graph):
        self._graph = graph
        self._values = {name: getattr(graph, name) for name in _MARKS}
        self._seeds = _seed_counts().get(graph, 0)
        self._layer_names = keras.layer_name_counts().get(graph, collections.defaultdict(int))

    def put(self):
        """Gives the graph these marks."""
        for name, value in self._values.items():
            setattr(self._graph, name, value)
        _seed_counts()[self._graph] = self._seeds
        keras.layer_name_counts()[self._graph] = self._layer_names

    def copy_for_tower(self, index):
        """Returns a copy with which tower `index` starts; nothing done to it shows in these."""
        new = copy.copy(self)
        new._values = {
            name: value[:] if isinstance(value, list) else copy.copy(value)
            for name, value in self._values.items()
        }
        for name in ("_device_function_stack", "_colocation_stack"):
            new._values[name] = self._values[name].copy()
        lists = {key: list(items) for key, items in self._values["_collections"].items()}
        stores = lists.get(vs._VARSTORE_KEY) or [vs._VariableStore()]
        lists[vs._VARSTORE_KEY] = [_copy_variable_store(store) for store in stores]
        new._values["_collections"] = lists
        new._seeds = self._seeds + index * _SEED_STRIDE
        new._layer_names = copy.copy(self._layer_names)
        return new

    @property
    def collections(self):
        """Lists of items by collection key, the stores of variable scopes left out."""
        lists = self._values["_collections"]
        return {key: items for key, items in lists.items() if key not in _STORES}

    def add_to_collection(self, key, item):
        """Adds `item` at the end of collection `key`."""
        self._values["_collections"].setdefault(key, []).append(item)

    @property
    def variables_by_name(self):
        """The variables that `get_variable` finds, by name; a dictionary to read or update."""
        stores = self._values["_collections"].get(vs._VARSTORE_KEY)
        return stores[0]._vars if stores else {}

    @property
    def control_inputs(self):
        """Operations on which every operation made now would wait."""
        stack = self._values["_control_dependencies_stack"]
        return {op for controller in stack for op in controller.control_inputs}


def set_collection(graph, key, items):
    """Makes the list `items` itself collection `key` of `graph`; an empty plain list removes it."""
    if items or type(items) is not list:
        graph._collections[key] = items
    else:
        graph._collections.pop(key, None)


def _copy_variable_store(store):
    new = vs._VariableStore()
    new._vars.update(store._vars)
    new._partitioned_vars.update(store._partitioned_vars)
    return new


class VariableScope:
    """The variable scope of the thread that makes it, to be entered by another thread."""

    def __init__(self):
        store = vs.get_variable_scope_store()
        # Copied, because `reuse_variables` and the like change the scope object itself.
        self._scope = copy.copy(store.current_scope)
        self._counts = dict(store.variable_scopes_count)

    def enter(self):
        """Makes it the current scope of the running thread, with its count of unnamed scopes."""
        store = vs.get_variable_scope_store()
        store.current_scope = self._scope
        store.variable_scopes_count = self._counts


def device_depth(graph):
    """How many device scopes are open; `colocate_with` opens an empty stack."""
    return sum(1 for _ in graph._device_function_stack.peek_objs())


@contextlib.contextmanager
def devices_of(marks, graph):
    """A scope with the device scopes of `marks` alone, and colocated with nothing."""
    saved = graph._device_function_stack, graph._colocation_stack
    graph._device_function_stack = marks._values["_device_function_stack"].copy()
    graph._colocation_stack = marks._values["_colocation_stack"].copy()
    try:
        yield
    finally:
        graph._device_function_stack, graph._colocation_stack = saved


@contextlib.contextmanager
def entered_once(graph):
    """A scope in which it costs little to enter `graph` again, where that changes nothing.

    TensorFlow does so in every `tf.init_scope`, and whenever a variable is hashed or compared: for
    each new weight, `tf.layers` does that with all variables.
    """
    enter = graph.as_default
    entered = contextlib.nullcontext(graph)
    switches = context.context().context_switches  # Those of the thread that asks.

    def enter_unless_entered():
        # Whatever enters another graph, a function or eager mode adds a switch of its own.
        if switches.stack and switches.stack[-1].device_stack is graph._device_function_stack:
            return entered
        return enter()

    graph.as_default = enter_unless_entered
    try:
        with enter():  # `tf.init_scope` calls the function that was there when it was entered.
            yield
    finally:
        del graph.as_default


def in_control_flow(graph):
    """Whether ops made now belong to a `cond` or `while_loop` body, or to a function."""
    return tf.get_default_graph() is not graph or graph._get_control_flow_context() is not None


def in_control_flow_v1():
    """Whether ops made now belong to a `cond` or `while_loop` body of TensorFlow 1's control flow.

    Those of TensorFlow 2's are graphs of their own.
    """
    return tf.get_default_graph()._get_control_flow_context() is not None


@contextlib.contextmanager
def control_flow_for(variables):
    """A scope in which the branches of a `tf.cond` can assign all of `variables`.

    To those that are no resources, only branches of TensorFlow 1's control flow can.
    """
    are_refs = [variable.dtype != variable.dtype.base_dtype for variable in variables]
    needs_v1 = any(are_refs) and tf.control_flow_v2_enabled()
    if needs_v1:
        tf.disable_control_flow_v2()
    try:
        yield
    finally:
        if needs_v1:
            tf.enable_control_flow_v2()


def tapes_stopped():
    """A scope in which no `tf.GradientTape` sees what happens."""
    return record.stop_recording()


def record_on_tapes(outputs, inputs, gradient):
    """Tells every open `tf.GradientTape` how gradients of `outputs` lead to `inputs`.

    Args:
        outputs: List of tensors, which tapes did not see being made.
        inputs: List of tensors.
        gradient: Function of a gradient, or None, for each of `outputs` that returns the list of
            those for `inputs`.
    """
    record.record_operation("CrossTowerSum", outputs, inputs, gradient)


def is_fed(structure):
    """Whether a tensor in a nested structure is computed from a placeholder."""
    pending = [
        tensor.op
        for tensor in tf.nest.flatten(structure, expand_composites=True)
        if isinstance(tensor, tf.Tensor)
    ]
    seen = set(pending)
    while pending:
        op = pending.pop()
        if op.type == "Placeholder":
            return True
        for tensor in op.inputs:
            if tensor.op not in seen:
                seen.add(tensor.op)
                pending.append(tensor.op)
    return False


def add_control_inputs(op, control_inputs):
    """Makes the existing operation `op` wait for `control_inputs`."""
    op._add_control_inputs([c for c in control_inputs if c not in op.control_inputs])


def flatten_with_paths(structure):
    """Returns `(path, leaf)` pairs of a nested structure, e.g. `("image/left", tensor)`."""
    return nest.flatten_with_joined_string_paths(structure)


def handle_in(graph, variable):
    """Returns the reference of the tensor that `graph`, maybe a function's, has for a variable."""
    handle = variable.op.outputs[0]
    for outer, inner in getattr(graph, "captures", ()):
        if outer is handle:
            return inner.ref()
    return handle.ref()


def name_like(variable, other):
    """Lets a resource variable have the name of another one; its operations keep theirs.

    Models find variables by their names, as `tf.get_collection(key, scope)` does.
    """
    variable._handle_name = other.name


@contextlib.contextmanager
def variable_store_of(marks, graph):
    """A scope in which `get_variable` finds what it finds in the tower of these marks."""
    own = graph._collections.get(vs._VARSTORE_KEY)
    graph._collections[vs._VARSTORE_KEY] = marks._values["_collections"][vs._VARSTORE_KEY]
    try:
        yield
    finally:
        graph._collections.pop(vs._VARSTORE_KEY)
        if own is not None:
            graph._collections[vs._VARSTORE_KEY] = own
