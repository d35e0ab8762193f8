"""Writes structures of `schema` as JSON and reads them back.

None, numbers and strings stand for themselves. All else is a JSON list that starts with the name
of its type:

    ["list", x, ...]    ["tuple", x, ...]    ["dict", [key, value], ...]
    ["oneof", ["choices", x], ["tag", t]]    ["namedtuple:<registered name>", ["field", x], ...]

Masks are not written: they belong to a graph. Classes of namedtuples are *registered* under a name
that stays the same when the class is renamed or moved, so that old files can still be read.
"""

import json
import math
import reprlib
import uuid

import tensorflow.compat.v1 as tf

from examples.nas_search import schema
from examples.runs import json_file
from examples.runs.json_file import JsonError

_PREFIX = "namedtuple:"
_NAMES = {}  # class -> name
_CLASSES = {}  # name, current or deprecated -> class
_DEFAULTS = {}  # class -> {field: value}


def register_namedtuple(name, deprecated_names=None, defaults=None):
    """Returns a decorator that lets a namedtuple class be written and read.

    Args:
        name: String that stands for the class in files, unique.
        deprecated_names: Names under which earlier versions wrote the class, or None.
        defaults: Dict of values for fields that a file may lack, or None.

    Returns:
        Function from the class to the class itself.

    Raises:
        ValueError: By the decorator, if it is given anything but an unregistered namedtuple class,
            if a name is taken, or if a default is for a field that does not exist.
    """
    names = [name, *(deprecated_names or [])]
    defaults = dict(defaults or {})

    def register(cls):
        if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ValueError(f"Only namedtuple classes can be registered, but {name!r} is {cls!r}.")
        if cls in _NAMES:
            raise ValueError(f"{cls.__name__} is registered already, as {_NAMES[cls]!r}.")
        for each in names:
            if each in _CLASSES or names.count(each) > 1:
                raise ValueError(f"The name {each!r} is used already. Choose another one.")
        unknown = sorted(set(defaults) - set(cls._fields))
        if unknown:
            raise ValueError(
                f"`defaults` must be for fields of {cls.__name__}, {list(cls._fields)}, but has "
                f"{unknown}."
            )
        _NAMES[cls] = name
        _DEFAULTS[cls] = defaults
        _CLASSES.update(dict.fromkeys(names, cls))
        return cls

    return register


def namedtuple_class_to_name(cls):
    """Returns the name under which a class is written; KeyError if it is not registered."""
    if cls not in _NAMES:
        raise KeyError(f"{cls!r} is not registered. Decorate it with `register_namedtuple`.")
    return _NAMES[cls]


def namedtuple_name_to_class(name):
    """Returns the class of a name, current or deprecated; KeyError if there is none."""
    if name not in _CLASSES:
        raise KeyError(f"No namedtuple is registered as {name!r}. Import the module that does it.")
    return _CLASSES[name]


def serialize(structure):
    """Writes a structure as text.

    Args:
        structure: A structure of `schema`, in which None may be a leaf and bytes may not.

    Returns:
        JSON as a string, indented by two.

    Raises:
        ValueError: If it holds an object of another type, or a number that is not finite.
        KeyError: If it holds a namedtuple whose class is not registered.
    """
    return json.dumps(_encode(structure), indent=2, sort_keys=True)


def deserialize(text):
    """Reads back what `serialize` wrote.

    Args:
        text: JSON as a string.

    Returns:
        The structure, with choices that have no mask.

    Raises:
        JsonError: If the text is not of that form, a namedtuple's fields are not the class's, or
            its name is not registered.
    """
    return _decode(json_file.loads(text))


def save(structure, directory, name):
    """Writes a structure to a file, which is complete as soon as it exists.

    Args:
        structure: What `serialize` accepts.
        directory: Where the file goes, made if missing; any path of `tf.gfile`.
        name: The file's name. A file of this name is replaced.
    """
    tf.gfile.MakeDirs(directory)
    path = tf.io.gfile.join(directory, name)
    # Several workers may write the same file at once.
    draft = f"{path}.{uuid.uuid4().hex}"
    with tf.gfile.Open(draft, "w") as file:
        file.write(serialize(structure) + "\n")
    tf.gfile.Rename(draft, path, overwrite=True)


def load(directory, name):
    """Reads back what `save` wrote; raises as `deserialize` and `json_file.read_text` do."""
    return deserialize(json_file.read_text(tf.io.gfile.join(directory, name)))


def _encode(node):
    if isinstance(node, float) and not math.isfinite(node):
        raise ValueError(f"JSON has finite numbers alone, but one is {node}. Write it as a text.")
    if node is None or isinstance(node, (int, float, str)):
        return node
    if isinstance(node, schema.OneOf):
        return ["oneof", ["choices", _encode(node.choices)], ["tag", _encode(node.tag)]]
    if schema.is_namedtuple(node):
        name = namedtuple_class_to_name(type(node))
        return [_PREFIX + name, *([field, _encode(x)] for field, x in zip(node._fields, node))]
    if isinstance(node, (list, tuple)):
        return ["list" if isinstance(node, list) else "tuple", *map(_encode, node)]
    if isinstance(node, dict):
        return ["dict", *([_encode(key), _encode(node[key])] for key in sorted(node))]
    raise ValueError(
        f"Unrecognized type {type(node).__name__} of {node!r}. Only None, numbers, strings, lists, "
        "tuples, dictionaries, OneOf and registered namedtuples can be written."
    )


def _decode(node):
    if node is None or isinstance(node, (int, float, str)):
        return node
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        raise JsonError(
            f"Expected a list that starts with the name of a type, but read {reprlib.repr(node)}"
        )
    kind, *items = node
    if kind == "list":
        return [_decode(item) for item in items]
    if kind == "tuple":
        return tuple(_decode(item) for item in items)
    if kind == "dict":
        return _decode_dict([(_decode(key), _decode(item)) for key, item in _pairs(kind, items)])
    if kind == "oneof":
        fields = _pairs(kind, items)
        if [field for field, _ in fields] != ["choices", "tag"]:
            raise JsonError(
                f"A oneof must have the fields choices and tag, but reads {reprlib.repr(items)}"
            )
        choices, tag = (_decode(item) for _, item in fields)
        if not isinstance(choices, (list, tuple)) or not choices or not isinstance(tag, str):
            raise JsonError(
                "A oneof must have a list of at least one choice and a text for a tag, but reads "
                f"{reprlib.repr(items)}"
            )
        return schema.OneOf(choices, tag)
    if kind.startswith(_PREFIX):
        return _decode_namedtuple(kind[len(_PREFIX) :], _pairs(kind, items))
    raise JsonError(
        f"Unknown type {reprlib.repr(kind)}. Known are list, tuple, dict, oneof and {_PREFIX}<name>"
    )


def _pairs(kind, items):
    for item in items:
        if not isinstance(item, list) or len(item) != 2:
            raise JsonError(f"A {kind[:80]} consists of pairs, but holds {reprlib.repr(item)}")
    return items


def _decode_dict(pairs):
    """Returns a dict of pairs; its keys can be put in order, as walks do."""
    try:
        decoded = dict(pairs)
        sorted(decoded)
    except TypeError as error:
        raise JsonError(
            "The keys of a dict must be numbers, or texts, or tuples of the same types, but are "
            f"{reprlib.repr([key for key, _ in pairs])}"
        ) from error
    return decoded


def _decode_namedtuple(name, pairs):
    try:
        cls = namedtuple_name_to_class(name)
    except KeyError as error:
        raise JsonError(
            f"A namedtuple must have a registered class, but reads {reprlib.repr(name)}",
            "Import the module that registers it",
        ) from error
    values = dict(_DEFAULTS[cls])
    for field, item in pairs:
        if field not in cls._fields:
            raise JsonError(f"Invalid field: {reprlib.repr(field)}. {name} has {list(cls._fields)}")
        values[field] = _decode(item)
    for field in cls._fields:
        if field not in values:
            raise JsonError(f"Missing field: {field!r} of {name}, which has no default")
    return cls(**values)
