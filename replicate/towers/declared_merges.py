"""Updates of metrics whose merge was declared: what that makes of all towers' values."""

import tensorflow.compat.v1 as tf

from replicate.compat import copying

_SCOPE = "replicate/updates/"
_SET = ("Assign", "AssignVariableOp")
_ADD = ("AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp")
_SUBTRACT = ("AssignSub", "AssignSubVariableOp")


def merge(group, updates):
    """Lets the updates of variables with a declared merge take what that makes of all towers."""
    for declaration in group.declarations:
        own = []
        for variable in declaration.variables:
            found = [update.op for update in updates if update.variable is variable]
            if not found:
                break
            if len(found) > 1 or found[0].type not in _SET + _ADD:
                raise ValueError(
                    "A variable with a declared merge is updated by one assignment, but "
                    f"'{variable.name}' is by {', '.join(op.name for op in found)}. Compute what "
                    "it becomes, and assign that."
                )
            own.append(found[0])
        if len(own) == len(declaration.variables):
            _apply_declared(group, declaration, own)


def _apply_declared(group, declaration, ops):
    with group.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
        before = [variable.read_value() for variable in declaration.variables]
        initial = [tf.convert_to_tensor(v.initial_value) for v in declaration.variables]
        values = [op.inputs[1] for op in ops]
        copies = group.copies.afresh(declaration.variables, initial)
        by_tower = group.each(values, copies)
        news = []
        for index, own in enumerate(by_tower):
            start = before if index == 0 else initial
            own = [_new_value(op, value, old) for op, value, old in zip(ops, own, start)]
            news.append([group.row_weights.mask(index, *pair) for pair in zip(own, start)])
        result = declaration.merge(*(tf.stack(tensors) for tensors in zip(*news)))
        result = result if isinstance(result, (list, tuple)) else [result]
        merged = [
            value if op.type in _SET else (old - value if op.type in _SUBTRACT else value - old)
            for op, value, old in zip(ops, result, before)
        ]
    for op, value in zip(ops, merged):
        copying.redirect(op, 1, value)


def _new_value(op, value, old):
    if op.type in _SET:
        return value
    return old - value if op.type in _SUBTRACT else old + value
