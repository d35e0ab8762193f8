"""Why what replicate gives for a name of `tf.contrib` does what TensorFlow 1.15's own does.

A proof is one of: it is the same object; the real one does nothing but call it with what it was
given, maybe in another order, as ours does; both have the same source; the real one is a class
derived from it that only passes arguments on.
"""

import ast
import inspect
import re
import textwrap

from tensorflow.python.util import tf_decorator, tf_inspect


def unwrapped(thing):
    return thing if inspect.isclass(thing) else tf_decorator.unwrap(thing)[1]


def signature(thing):
    """Returns the names and defaults of arguments, those of defaults without addresses."""
    spec = tf_inspect.getfullargspec(thing.__init__ if inspect.isclass(thing) else thing)
    defaults = [re.sub(" at 0x[0-9a-f]+", "", repr(value)) for value in spec.defaults or ()]
    return [name for name in spec.args if name != "self"], spec.varargs, spec.varkw, defaults


def proof(ours, real):
    """Returns why two functions or classes do the same, or None."""
    if ours is real or unwrapped(ours) is unwrapped(real):
        return "same"
    if not callable(real):
        return "equal" if ours == real else None
    if inspect.isclass(real):
        if ours in real.__bases__ and _passes_on(real):
            return "derived"
    elif _called(real) is not None:
        # A respelled function calls that as well.
        theirs = unwrapped(_called(real))
        if theirs in (unwrapped(ours), getattr(ours, "__wrapped__", None)):
            return "calls"
    return "source" if _source(real) and _source(ours) == _source(real) else None


def _tree(thing):
    """Returns the syntax tree of a function or class, without docstrings and decorators."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(unwrapped(thing)))).body[0]
    except (IndentationError, OSError, SyntaxError, TypeError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            node.decorator_list = []
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, (ast.Constant, ast.Str)):
                node.body = node.body[1:] or [ast.Pass()]
    return tree


def _source(thing):
    tree = _tree(thing)
    return tree and ast.dump(tree)


def _called(function):
    """Returns what a function calls, if that is all it does, with its own arguments as they are."""
    tree = _tree(function)
    if not isinstance(tree, ast.FunctionDef) or not isinstance(tree.body[-1], ast.Return):
        return None
    call = tree.body[-1].value
    if len(tree.body) > 1 or not isinstance(call, ast.Call):
        return None
    names = [argument.arg for argument in tree.args.args]
    expression = compile(ast.Expression(call.func), "<call>", "eval")
    try:
        called = eval(expression, unwrapped(function).__globals__)
    except NameError:  # It calls a method of an argument.
        return None
    if inspect.isbuiltin(called):
        return None
    theirs = tf_inspect.getfullargspec(called).args
    given = list(zip(theirs, call.args)) + [(one.arg, one.value) for one in call.keywords]
    if any(not isinstance(value, ast.Name) or value.id != name for name, value in given):
        return None
    return called if sorted(name for name, _ in given) == sorted(names) else None


def _passes_on(cls):
    """Whether a class only has an `__init__` that gives its base what it was given."""
    own = [node for node in _tree(cls).body if not isinstance(node, ast.Pass)]
    if len(own) != 1 or getattr(own[0], "name", None) != "__init__" or len(own[0].body) != 1:
        return False
    call = own[0].body[0].value
    names = [argument.arg for argument in own[0].args.args]
    is_super = ast.dump(call.func).endswith("attr='__init__', ctx=Load())")
    return is_super and [getattr(arg, "id", None) for arg in call.args] == names[1:]
