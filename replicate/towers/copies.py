"""Copies of tower 0's graph for the other towers: what is copied, and what all towers share.

A model is built once, as tower 0. Tower i is a copy of the operations that lead from its rows to
what is asked for. Copied are constants, random operations and what lives within a step; shared are
variables and all other state, whatever reads or changes it by itself, what was there before the
model, and what is computed once for all towers.
"""

import bisect
import copy

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat.copying import Copier, colocated_with
from replicate.compat.graph import id_of
from replicate.graphs import Rows, line_of, state

# Constants of more elements cross devices instead of being copied.
_LARGE = 2**16


class Copies:
    """The copies of one graph.

    Args:
        graph: The graph, before the model is built in it.
        devices: Device strings of the N towers.

    Attributes:
        rows: The `Rows`: what depends on them.
        differing: The `Rows` of what differs among towers, random numbers included.
    """

    def __init__(self, graph, devices):
        self._graph = graph
        self._size = len(devices)
        self._copier = Copier(graph, devices)
        self._first = last_id(graph) + 1  # What is older was there before the model.
        self._last = 0
        self._shared = set()  # ids of operations that are not copied, whatever they do.
        self._instead = {}  # By id of an operation: tensors of towers by position of the input.
        self._once = []  # First and last ids of what was made for all towers, in turn.
        self._counterparts = {}  # By tensor: those of all towers.
        self._copied = {}  # By tower and id of the operation: the prefix of its copy's name.
        self.rows = Rows(graph, self.is_whole)
        self.differing = Rows(graph, self.is_whole, with_random=True)

    def afresh(self, variables, values):
        """Returns `Copies` of their own in which some variables have other values.

        Args:
            variables: List of variables.
            values: List of tensors, which whatever reads them reads in the copies.
        """
        other = copy.copy(self)
        other._copied, other._counterparts = {}, dict(self._counterparts)
        for variable, value in zip(variables, values):
            for op in variable.op.outputs[0].consumers():
                if state.reads(op):
                    for output in op.outputs:
                        own = [output, *[value] * (self._size - 1)]
                        other._counterparts[id_of(op), output.value_index] = own
        return other

    def put(self, tensors, on_their_towers=False):
        """Takes N tensors for one another's counterparts; of the first, nothing was made yet.

        Args:
            tensors: List of tensors.
            on_their_towers: Whether each is on the device of its tower.
        """
        first = tensors[0]
        if on_their_towers:
            # What a cluster's scopes have made of the towers' devices.
            self._copier.places[first.op.device] = [tensor.op.device for tensor in tensors]
        self._counterparts[id_of(first.op), first.value_index] = tensors
        self.rows.add(first)
        self.differing.add(first)

    def substitute(self, tensors):
        """Takes N tensors for one another's counterparts, though they do not depend on rows."""
        first = tensors[0]
        self._counterparts[id_of(first.op), first.value_index] = tensors

    def share_again(self, tensor):
        """Undoes `substitute` of this one and others."""
        del self._counterparts[id_of(tensor.op), tensor.value_index]

    def made_once(self, first, last):
        """Takes operations with ids from `first` to `last` for made once for all towers."""
        if last >= first:
            bisect.insort(self._once, (first, last))

    def is_whole(self, op):
        """Whether what an operation gives is the same in all towers, whatever it takes."""
        return self.is_once(op) or (state.writes(op) and not graph_lib.in_while_loop(op))

    def is_once(self, op):
        """Whether an operation was made once for all towers."""
        number = id_of(op)
        position = bisect.bisect_right(self._once, (number, float("inf"))) - 1
        return position >= 0 and number <= self._once[position][1]

    def new_operations(self):
        """Returns the operations that were made since the model began."""
        return [op for op in self._graph.get_operations() if id_of(op) >= self._first]

    def share(self, op):
        """Lets all towers have an operation that would be copied otherwise."""
        self._shared.add(id_of(op))

    def take_instead(self, op, position, tensors):
        """Lets copies of an operation take other tensors for one of its inputs.

        Args:
            op: The operation.
            position: Which of its inputs.
            tensors: N tensors, for each tower one.
        """
        self._instead.setdefault(id_of(op), {})[position] = tensors

    def is_boundary(self, tensor):
        """Whether each tower has a tensor of its own in the place of `tensor`."""
        return (id_of(tensor.op), tensor.value_index) in self._counterparts

    def of(self, tensors, index):
        """Returns tower `index`'s copies of tensors that were asked for by `make`."""
        return [self._counterpart(tensor, index) for tensor in tensors]

    def of_ops(self, ops, index):
        """Returns tower `index`'s copies of operations, themselves where they are shared."""
        prefixes = [self._copied.get((index, id_of(op))) for op in ops]
        return [(p and self._copy_of(p, op)) or op for p, op in zip(prefixes, ops)]

    def is_copied(self, op):
        """Whether an operation has copies, or is one."""
        return (1, id_of(op)) in self._copied or id_of(op) > self._last

    def make(self, tensors):
        """Copies what leads to tensors or operations, for all towers but the first."""
        ops = self._needed(tensors)
        self._last = self._last or last_id(self._graph)  # What is newer is a copy.
        if not ops:
            return
        own = {id_of(op) for op in ops}

        def is_copied(item):
            if isinstance(item, tf.Tensor):
                return id_of(item.op) in own and not self.is_boundary(item)
            return id_of(item) in own

        instead = {op.name: self._instead[id_of(op)] for op in ops if id_of(op) in self._instead}
        template = self._copier.template(ops, is_copied, instead)
        for index in range(1, self._size):
            prefix = self._copier.copy(
                template,
                index,
                lambda tensor, index=index: self._counterpart(tensor, index),
                lambda op, index=index: self.of_ops([op], index)[0],
                {
                    name: {position: tensors[index] for position, tensors in given.items()}
                    for name, given in instead.items()
                },
            )
            for op in ops:
                self._copied[index, id_of(op)] = prefix

    def _counterpart(self, tensor, index):
        found = self._counterparts.get((id_of(tensor.op), tensor.value_index))
        if found is not None:
            return found[index]
        prefix = self._copied.get((index, id_of(tensor.op)))
        if prefix is None:
            return tensor
        return self._copy_of(prefix, tensor.op).outputs[tensor.value_index]

    def _copy_of(self, prefix, op):
        return self._graph.get_operation_by_name(f"{prefix}/{op.name}")

    def _needed(self, tensors):
        """Returns the operations to copy for tensors, in the order in which they were made."""
        found, seen = [], set()
        pending = list(tensors)
        while pending:
            item = pending.pop()
            op = item
            if isinstance(item, tf.Tensor):
                op = item.op
                if (id_of(op), item.value_index) in self._counterparts:
                    continue
            if id_of(op) in seen:
                continue
            seen.add(id_of(op))
            if (1, id_of(op)) in self._copied or self.is_shared(op):
                continue
            found.append(op)
            pending += op.inputs
            pending += op.control_inputs
        return sorted(found, key=lambda op: id_of(op))

    def is_shared(self, op):
        """Whether all towers have one operation, instead of a copy for each."""
        if id_of(op) < self._first or self.is_once(op) or id_of(op) in self._shared:
            return True
        if "Placeholder" in op.type or state.makes_state(op):
            return True
        if state.writes(op):
            return not (graph_lib.in_while_loop(op) and self._enters_own(op))
        if op.type == "Const":
            return (op.outputs[0].shape.num_elements() or 0) > _LARGE
        if state.is_of_step(op):
            return False
        if id_of(op) in self._instead and not self.rows.takes(op):
            return True  # It changes what no row enters: once.
        if self.differing.reach_op(op):
            return False
        if state.handles(op) and self._is_substituted(op):
            return False
        if state.reads(op):
            return not graph_lib.in_while_loop(op)
        kind = state.kind(op)
        if kind.is_stateful:
            return True
        # Beside a variable, as are its reads by reference; but each tower has a loop of its own.
        names = colocated_with(op)
        return (
            bool(names)
            and not graph_lib.in_while_loop(op)
            and all(state.makes_state(self._graph.get_operation_by_name(name)) for name in names)
        )

    def _is_substituted(self, op):
        return any(
            (id_of(made.op), made.value_index) in self._counterparts
            for made in (state.source(handle).outputs[0] for handle in state.handles(op))
        )

    def _enters_own(self, op):
        """Whether what an operation in a loop changes is a variable of each tower."""
        for tensor in state.handles(op):
            while tensor.op.type in ("Switch", "RefSwitch", "Identity", "RefIdentity"):
                tensor = tensor.op.inputs[0]
            if id_of(tensor.op) in self._instead:
                return True
        raise ValueError(
            "What a loop changes in each of its rounds, each tower's loop would change by "
            f"itself, but {op.type} {op.name} changes state ({line_of(op)}). Change it before "
            "or after the loop, by what the loop returns."
        )


def last_id(graph):
    """Returns the id of the operation that was made last, 0 if there is none."""
    operations = graph.get_operations()
    return id_of(operations[-1]) if operations else 0
