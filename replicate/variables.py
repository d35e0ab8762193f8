"""One set of variables for all towers, however `model_fn` makes them.

Tower 0 creates its variables; a later tower that asks for its i-th variable receives tower 0's
i-th. So that the towers' updates do not mix, two kinds stay *per tower*: local and metric
variables, and those of `synchronization=ON_READ`, as batch norm makes its moving statistics.

With *replicas*, each later tower receives a variable of its own in place of each that is trained,
which begins every session with the value of tower 0's, and gets the same updates
(`replicate.replicas`).

What a later tower has of its own is no part of the model: neither saved nor listed among the global
variables.
"""

import contextlib
import itertools
import re
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.replicas import Replicas, initial_value


class _Creation(NamedTuple):
    """How a tower asked for a variable."""

    name: str
    shape: Any  # tf.TensorShape, unknown where only its initialiser knows.
    dtype: Any  # tf.DType, None where only its initialiser knows.
    per_tower: bool
    is_local: bool  # Whether it belongs to a session, and is no part of the model.

    @classmethod
    def of(cls, kwargs, tower):
        """Returns what the arguments of a variable creator in `tower` ask for."""
        name, scope = kwargs.get("name") or "Variable", tower.name_scope + "/"
        if tower.index and name.startswith(scope):
            # The name is that of an open scope, `tower_1/name/`. Tower 0 is in the caller's scope.
            outer = tower.towers.name_scope
            name = (outer + "/" if outer else "") + name[len(scope) :]
        initial_value = kwargs.get("initial_value")
        shape = kwargs.get("shape")
        if shape is None and hasattr(initial_value, "shape"):
            shape = initial_value.shape
        dtype = kwargs.get("dtype") or getattr(initial_value, "dtype", None)
        collections = kwargs.get("collections") or ()
        is_local = (
            tf.GraphKeys.LOCAL_VARIABLES in collections
            or tf.GraphKeys.METRIC_VARIABLES in collections
        )
        on_read = kwargs.get("synchronization") == tf.VariableSynchronization.ON_READ
        return cls(
            name,
            tf.TensorShape(shape),
            None if dtype is None else tf.as_dtype(dtype).base_dtype,
            is_local or on_read,
            is_local,
        )

    def matches(self, first):
        """Whether a later tower's creation can be meant to be tower 0's creation `first`."""
        return (
            _stem(self.name) == _stem(first.name)
            and self.shape.is_compatible_with(first.shape)
            and (self.dtype is None or self.dtype == first.dtype)
            and self.per_tower == first.per_tower
        )

    def __str__(self):
        dtype = "unknown type" if self.dtype is None else self.dtype.name
        return f"variable '{self.name}' of shape {self.shape} and {dtype}"


class _Created(NamedTuple):
    creation: _Creation
    variable: Any
    collections: list  # Keys of the collections that hold the variable in tower 0.
    copies: list  # The later towers' variables, where each has its own.
    is_replicated: bool = False  # Whether these are to be equal to tower 0's.


class SharedVariables:
    """The variables of the towers of one graph.

    Args:
        devices: Device strings on which shared variables are placed in turn. A device scope that
            `model_fn` opens around a variable has precedence.
        worker: Device string of the job and task that the towers belong to, for variables that the
            workers of a cluster do not share; empty outside a cluster.
        replicates: Whether later towers have replicas of the variables that are trained.
    """

    def __init__(self, devices, worker="", replicates=False):
        self._devices = itertools.cycle(devices)
        self.worker = worker
        self.replicas = Replicas() if replicates else None
        """The `Replicas` of variables, None if there are none."""
        self.restarted = set()
        """The `id`s of later towers' copies that are given a value at the start of each step."""
        self.accumulated = []
        """What the towers accumulate gradients in, variables that belong to a session."""
        self._created = []
        self._names = set()  # Of the variables in `_created`, as tower 0 asked for them.
        self._positions = {}  # How many variables each later tower has asked for, by its index.

    @property
    def shared(self):
        """The variables that all towers use, in the order tower 0 made them."""
        return [made.variable for made in self._created if not made.creation.per_tower]

    @property
    def per_tower(self):
        """Lists of N variables, one per tower, for each variable that stays per tower."""
        return [[made.variable, *made.copies] for made in self._created if made.creation.per_tower]

    @property
    def of_model(self):
        """Those of `per_tower` that are variables of the model, saved as tower 0 has them."""
        return [
            [made.variable, *made.copies]
            for made in self._created
            if made.creation.per_tower and _is_global(made)
        ]

    @property
    def copies(self):
        """The later towers' copies of the model's variables."""
        own = [copy for record in self.of_model for copy in record[1:]]
        return own + (self.replicas.later if self.replicas else [])

    def creator(self, tower):
        """Returns the variable creator for `tf.variable_creator_scope` in `tower`."""

        def create(next_creator, **kwargs):
            if tower.towers.merging:  # Made once for all towers: a slot, a running baseline.
                if self.replicas and self.replicas.are_updated:
                    return self.replicas.create(next_creator, kwargs)
                if not self.worker:
                    return next_creator(**kwargs)
                with self._scope(tower, _Creation.of(kwargs, tower)):
                    return next_creator(**kwargs)
            if tower.index:
                return self._create_later(tower, next_creator, kwargs)
            return self._create_first(tower, next_creator, kwargs)

        return create

    def check_complete(self, num_towers):
        """Raises if one of the later towers asked for fewer variables than tower 0.

        Raises:
            RuntimeError: If it did; names the tower and the first variable it lacks.
        """
        for index in range(1, num_towers):
            position = self._positions.get(index, 0)
            if position < len(self._created):
                raise RuntimeError(
                    "Towers must create the same variables in the same order, but tower "
                    f"{index} created {position} and tower 0 {len(self._created)}: tower {index} "
                    f"lacks {self._created[position].creation}. Create it whatever "
                    "`tower_index()` is."
                )

    def _create_first(self, tower, next_creator, kwargs):
        graph = tower.towers.graph
        creation = _Creation.of(kwargs, tower)
        with self._scope(tower, creation):
            variable = next_creator(**kwargs)
        collections = [
            key
            for key, items in graph_lib.Marks(graph).collections.items()
            if _is_last(items, variable)
        ]
        if tf.GraphKeys.GLOBAL_STEP in collections:
            # TensorFlow looks for it by collection, then by name, before it makes another one.
            for later in tower.towers.towers[1:]:
                for key in collections:
                    later.marks.add_to_collection(key, variable)
            return variable
        creation = creation._replace(shape=variable.shape, dtype=variable.dtype.base_dtype)
        is_replicated = bool(self.replicas and variable.trainable and not creation.per_tower)
        self._created.append(_Created(creation, variable, collections, [], is_replicated))
        self._names.add(creation.name)
        return variable

    def _create_later(self, tower, next_creator, kwargs):
        position = self._positions.get(tower.index, 0)
        creation = _Creation.of(kwargs, tower)
        made = self._created[position] if position < len(self._created) else None
        self._check(tower.index, creation, made)
        self._positions[tower.index] = position + 1
        if not (made.creation.per_tower or made.is_replicated):
            variable = made.variable
        else:
            if made.is_replicated:
                kwargs.update(initial_value=initial_value(made.variable), use_resource=True)
            names = tower.towers.graph.get_name_scope(), kwargs.get("name") or ""
            if not any(name.startswith(tower.name_scope) for name in names):
                # `get_variable` leaves all name scopes; tower 0's later names must stay free.
                kwargs["name"] = f"{tower.name_scope}/{creation.name}"
            if _is_global(made):
                kwargs["collections"] = []
            with self._scope(tower, creation):
                variable = next_creator(**kwargs)
            made.copies.append(variable)
            if made.is_replicated:
                self.replicas.add(made.variable, tower.index, variable)
            if not _is_global(made):
                return variable  # It entered its collections when it was made.
        marks = graph_lib.Marks(tower.towers.graph)
        for key in made.collections:
            # What is trained enters its collection even if it is made for none.
            if not _is_last(marks.collections.get(key), variable):
                marks.add_to_collection(key, variable)
        return variable

    def _scope(self, tower, creation):
        """Returns the device scope in which a tower makes a variable."""
        depth = graph_lib.device_depth(tower.towers.graph)
        if creation.is_local or (creation.per_tower and tower.index):
            # A smaller depth means that it is colocated with something.
            device = self.worker if depth >= tower.device_depth else ""
        elif depth != tower.device_depth or tower.index:
            device = ""  # The caller chose a device, or colocates; a replica is with its tower.
        else:  # Tower 0's part of what is kept per tower is on its device, or shared by workers.
            device = next(self._devices) if self.worker or not creation.per_tower else ""
        return tf.device(device) if device else contextlib.nullcontext()

    def _check(self, index, creation, made):
        """Raises unless tower 0's variable `made` is what tower `index` asks for."""
        if (
            made is not None
            and creation.matches(made.creation)
            and (creation.name == made.creation.name or creation.name not in self._names)
        ):
            return
        raise RuntimeError(
            f"Towers must create the same variables in the same order, but tower {index} creates "
            f"{creation} where tower 0 created {made.creation if made else 'no more'}. Make what "
            "`model_fn` creates independent of `tower_index()` and of what earlier calls left."
        )


def _is_last(items, variable):
    return bool(items) and items[-1] is variable


def _is_global(made):
    return tf.GraphKeys.GLOBAL_VARIABLES in made.collections


def _stem(name):
    """Returns `name` without the numbers that make it unique: of `dense_1/w` it is `dense/w`."""
    return re.sub(r"_\d+(?=/|$)", "", name)
