"""What the gradients of several batches add up to, in variables of each tower."""

import tensorflow.compat.v1 as tf

from replicate.gathering import collectives, packing


def make_total(entries, make):
    """Returns what the gradients of variables add up to.

    Args:
        entries: List of pairs of a variable, and of the gradients of one batch: a list of pairs of
            the index of a tower, and of a tensor or `tf.IndexedSlices`. Of several variables, all
            gradients are tensors of one type, and of the same towers.
        make: A function like `replicate.engines.make_variables`; for several variables one that
            takes their `parts`, too.

    Raises:
        TypeError: If the towers' gradients of a variable are of several types.
        ValueError: If the shape of a variable is not static.
    """
    if len(entries) > 1:
        return _Pack(entries, make)
    grads = [gradient for _, gradient in entries[0][1]]
    are_sparse = all(isinstance(gradient, tf.IndexedSlices) for gradient in grads)
    return (_Slices if are_sparse else _Dense)(entries, make)


class _Total:
    """What the gradients of variables add up to, in each tower that has some.

    Args:
        entries: As `make_total` takes them.
        make: Likewise.

    Attributes:
        towers: Indices of the towers.
    """

    def __init__(self, entries, make):
        for variable, grads in entries:
            _check_static(variable)
            self._dtype = collectives.check_types(
                variable, [(index, gradient.dtype.base_dtype) for index, gradient in grads]
            )
        self._wide = tf.float32 if self._dtype.size == 2 else self._dtype
        self._variables = [variable for variable, _ in entries]
        self._shape = self._variables[0].shape.as_list()
        self.towers = [index for index, _ in entries[0][1]]
        self._parts = self._make_parts(entries, make)

    @property
    def variables(self):
        """The variables, each once."""
        every = [variable for part in self._parts.values() for variable in part.values()]
        return [one for i, one in enumerate(every) if not any(one is other for other in every[:i])]

    def _name(self, part):
        return _name(self._variables[0], part)

    def _zeros(self, zeros=tf.zeros):
        return zeros(tuple(self._shape), self._wide)

    def _finish(self, value, counts):
        """Returns a sum in gradients' type, as a mean over `counts(dtype)` batches if not None."""
        count = counts(value.dtype)
        if count is not None:
            value = value / count
        return tf.cast(value, self._dtype)


class _Dense(_Total):
    """Gradients of a variable that are tensors, added up."""

    def _make_parts(self, entries, make):
        del entries
        return {"gradient": make(self._zeros, self._name("gradient"), None, self.towers)}

    def add(self, index, grads):
        """Returns operations that add tower `index`'s gradients of one batch, a list of them."""
        variable, total = self._variables[0], self._parts["gradient"][index]
        dense = [collectives.dense(gradient, variable) for gradient in grads]
        return [total.assign_add(tf.cast(one, self._wide), read_value=False) for one in dense]

    def read(self, index, counts):
        """Returns the gradient of each variable, of what tower `index` has added up."""
        return [self._finish(self._parts["gradient"][index].value(), counts)]

    def reset(self, index, zeros):
        """Returns operations after which tower `index` has added up nothing.

        Args:
            index: The tower.
            zeros: A function like `tf.zeros` that takes a tuple.
        """
        return [self._parts["gradient"][index].assign(self._zeros(zeros), read_value=False)]


class _Pack(_Dense):
    """Small gradients of several variables: an operation for each costs more than adding it up.

    In checkpoints, each variable has its own.
    """

    def _make_parts(self, entries, make):
        del entries
        self._shapes = [variable.shape for variable in self._variables]
        self._shape = [sum(shape.num_elements() for shape in self._shapes)]
        parts = [(_name(v, "gradient"), v.shape) for v in self._variables]
        name = "replicate/accumulated_gradients"
        return {"gradient": make(self._zeros, name, None, self.towers, parts=parts)}

    def add(self, index, grads):
        joined = tf.cast(packing.join(grads), self._wide)
        return [self._parts["gradient"][index].assign_add(joined, read_value=False)]

    def read(self, index, counts):
        return packing.part(super().read(index, counts)[0], self._shapes)


class _Slices(_Total):
    """Gradients of a variable that are `tf.IndexedSlices`, whose slices are concatenated."""

    def _make_parts(self, entries, make):
        grads = [gradient for _, gradient in entries[0][1]]
        self._indices = max((g.indices.dtype for g in grads), key=lambda dtype: dtype.size)
        shapes = {"rows": [None], "slices": [None, *self._shape[1:]]}
        return {
            part: make(
                lambda part=part: self._none(part),
                self._name(part),
                tf.TensorShape(shape),
                self.towers,
            )
            for part, shape in shapes.items()
        }

    def _none(self, part):
        if part == "rows":
            return tf.zeros([0], self._indices)
        return tf.zeros([0, *self._shape[1:]], self._wide)

    def add(self, index, grads):
        return [op for gradient in grads for op in self._add(index, gradient)]

    def _add(self, index, gradient):
        rows, slices = self._parts["rows"][index], self._parts["slices"][index]
        new_rows = tf.cast(gradient.indices, self._indices)
        new_slices = tf.cast(gradient.values, self._wide)
        return [
            rows.assign(tf.concat([rows.read_value(), new_rows], axis=0), read_value=False),
            slices.assign(tf.concat([slices.read_value(), new_slices], axis=0), read_value=False),
        ]

    def read(self, index, counts):
        return [
            tf.IndexedSlices(
                self._finish(self._parts["slices"][index].read_value(), counts),
                self._parts["rows"][index].read_value(),
                tf.constant(self._shape, self._indices),
            )
        ]

    def reset(self, index, zeros):
        del zeros
        return [
            by_tower[index].assign(self._none(part), read_value=False)
            for part, by_tower in self._parts.items()
        ]


def _name(variable, part):
    return f"{variable.name.partition(':')[0]}/accumulated_{part}"


def _check_static(variable):
    if not variable.shape.is_fully_defined():
        shape = str(variable.shape).replace("?", "None")  # As TensorFlow 1.15 has it.
        raise ValueError(
            "Gradients are accumulated for variables of static shape, but "
            f"'{variable.name}' has {shape}. Give it one, or leave `accumulate_steps` at 1."
        )
