"""Searches in graphs, for tests."""


def behind(op, time=True):
    """Returns all operations that an operation's value, or its time, too, depends on."""
    found, pending = set(), [op]
    while pending:
        op = pending.pop()
        before = [tensor.op for tensor in op.inputs] + list(op.control_inputs if time else ())
        pending += [each for each in before if each not in found]
        found.update(before)
    return found
