"""Sorts operations topologically, with the operations of each loop together.

Operations are mostly made in such an order. But `model_fn` may change its graph afterwards:
quantisation, for example, inserts operations between existing ones.
"""

from __future__ import annotations

from typing import Any, Callable, Hashable, Iterator, Mapping, Sequence

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.graphs import ancestors
from replicate.partition import effects


def in_order(operations: Sequence[Any]) -> list[Any]:
    """Returns operations in topological order.

    The operations of a loop of TensorFlow 1 follow one another, after everything that enters it.
    Edges back to the beginning of a loop are ignored. If only control inputs make a cycle of loops
    and other operations, these are ignored, too: if a gradient waits for updates, the counter of a
    loop may wait for an update that depends on the loop itself.

    Args:
        operations: The operations, in the order in which they were made.
    """
    there = set(operations)
    loops: dict[Any, list[Any]] = {}
    unit: dict[Any, Hashable] = {}
    for operation in operations:
        found = graph_lib.loops_of(operation)
        unit[operation] = found[0] if found else operation
        if found:
            loops.setdefault(found[0], []).append(operation)

    if not loops:
        # An edited graph may have operations that take later ones.
        is_so = partitioning.are_made_in_order(operations)
        return list(operations) if is_so else _sorted(operations, _before)

    # Each outermost loop is a unit, as is each operation outside of loops.
    def units_before(one: Any, before: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
        for operation in loops.get(one, (one,)):
            yield from (unit[each] for each in before(operation) if each in there)

    units = list(dict.fromkeys(unit.values()))
    found = _sorted(units, lambda one: units_before(one, _before))
    if not _is_sorted(found, lambda one: units_before(one, _before)):
        found = _sorted(units, lambda one: units_before(one, _taken))
    made: list[Any] = []
    for one in found:
        made += _sorted(loops[one], _before) if one in loops else [one]
    return made


def _is_sorted(items: Sequence[Any], before: Callable[[Any], Iterator[Any]]) -> bool:
    """Whether each item follows its predecessors."""
    places = {item: place for place, item in enumerate(items)}
    return all(places[one] <= places[item] for item in items for one in before(item))


def _sorted(items: Any, before: Callable[[Any], Iterator[Any]]) -> list[Any]:
    """Returns items so that each follows its predecessors; else their order stays."""
    # Depth-first, with an explicit stack: graphs are deeper than Python's recursion limit.
    there, done, found = set(items), set(), []
    for start in items:
        if start in done:
            continue
        done.add(start)
        path = [(start, before(start))]
        while path:
            item, rest = path[-1]
            following = next((one for one in rest if one in there and one not in done), None)
            if following is None:
                found.append(item)
                path.pop()
            else:
                done.add(following)
                path.append((following, before(following)))
    return found


def _before(operation: Any) -> Iterator[Any]:
    """Yields the operations that lead to an operation, or that it waits for."""
    yield from _taken(operation)
    yield from operation.control_inputs


def _taken(operation: Any) -> Iterator[Any]:
    """Yields the operations that give an operation its inputs."""
    if graph_lib.enters_as_a_wait(operation):
        return
    for tensor in operation.inputs:
        if tensor.op.type not in ("NextIteration", "RefNextIteration"):
            yield tensor.op


def waits_for_later(operations: Sequence[Any], control_inputs: Mapping[Any, Sequence[Any]]) -> bool:
    """Whether an operation waits for a later one, as it may with a loop; see `in_order`."""
    places = {operation: place for place, operation in enumerate(operations)}
    return any(
        places.get(before, -1) > places[one]
        for one, waited_for in control_inputs.items()
        for before in waited_for
    )


def taking_later(
    operations: Sequence[Any], control_inputs: Mapping[Any, Sequence[Any]]
) -> list[Any]:
    """Returns operations that take an output of a later one, or of themselves, or wait for one."""
    there, done, found = set(operations), set(), []
    for one in operations:
        before = [*(tensor.op for tensor in one.inputs), *control_inputs.get(one, ())]
        if any(other in there and other not in done for other in before):
            found.append(one)
        done.add(one)
    return found


def of_the_input(
    operations: Sequence[Any], control_inputs: Mapping[Any, Sequence[Any]]
) -> tuple[list[Any], list[Any]]:
    """Returns other operations whose outputs some take, and others that some wait for."""
    there = set(operations)
    taken = dict.fromkeys(tensor.op for one in operations for tensor in one.inputs)
    waited_for = dict.fromkeys(one for before in control_inputs.values() for one in before)
    given = [one for one in taken if one not in there]
    return given, [one for one in waited_for if one not in there]


def batches_of(given: Sequence[Any]) -> tuple[dict[Any, int], int]:
    """Returns, by operation of the input, a bit for each iterator, queue or placeholder it takes.

    Args:
        given: The operations of the input.

    Returns:
        The bits of each as an integer, and how many different bits there are.
    """
    bits: dict[Any, int] = {}
    found: dict[Any, int] = {}
    known: dict[Any, list[Any]] = {}
    for one in given:
        taken = [other for other in ancestors([one], known=known) if effects.acts(other)]
        found[one] = sum(bits.setdefault(other, 1 << len(bits)) for other in taken)
    return found, len(bits)
