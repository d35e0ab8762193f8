"""The base of all layers: weights, snapshots of them, and penalties.

`build` makes a layer's variables; `apply` computes with them, as often as one likes. The layer on
which `apply` is called is the *root*, and that one computation is a *run*. At its start the root
reads every variable below it once, into the run's *snapshot*; all layers below compute with these
tensors. The next run reads the variables again: under the control dependencies of an update, it
sees the updated weights.

A layer of one's own defines `_setup` and `_call`. It passes inputs to other layers by calling them,
`layer(inputs, run)`, after it has declared them by `track`.
"""

import re
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple, Union

import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import tensors


class Weight(NamedTuple):
    """A variable of a layer, and what of it is used and penalized.

    Attributes:
        variable: Resource variable of float type.
        masks: Tensors that are multiplied with it wherever it is used, each of a shape that
            broadcasts to its own.
        regularizer: Function from the value in use to a scalar, its penalty. None for none.
        sizes: For each axis, how many of the first entries are used, an int or an int32 scalar
            tensor. None for all of all axes.
    """

    variable: Any
    masks: Tuple[tf.Tensor, ...] = ()
    regularizer: Optional[Callable] = None
    sizes: Optional[Sequence[Union[int, tf.Tensor]]] = None

    def in_use(self, value):
        """Returns the part of the variable's value that is used, masked."""
        if self.sizes is not None:
            value = tensors.first_entries(value, self.sizes)
        for mask in self.masks:
            value *= tf.cast(mask, value.dtype)
        return value

    def value(self, run, dtype=None):
        """Returns the value in use in a `Run`, as `dtype`; None leaves the variable's."""
        value = run.values[self.variable.ref()]
        return value if dtype is None else tf.cast(value, dtype)


class Run:
    """Facts that layers need while they are applied.

    Attributes:
        training: Whether the layers are being trained, bool.
        values: Dict of the tensors that are read and restricted, or drawn, once per run. Keys are
            references to variables (`variable.ref()`), or layers that draw random numbers.
        snapshot: Dict of the variables' values as they were read, by references.
        updates: List to which layers append operations that update their moving averages.
    """

    def __init__(self, training, values):
        self.training = training
        self.values = values
        self.snapshot = {}
        self.updates = []

    def replace(self, values):
        """Returns a `Run` in which the tensors of the dict `values` take the place of others."""
        return Run(self.training, {**self.values, **values})


class Layer:
    """A function of a tensor whose first axis is the batch, with variables."""

    def __init__(self):
        self._children = []
        self._weights = {}
        self._output_shapes = {}  # by shape of the input; both without the batch
        self._scope = None
        self._latest_run = None
        self._updates = []

    # Methods that a subclass defines.

    def _setup(self, input_shape):
        """Makes the weights, by `add_weight`, and builds the layers below.

        Args:
            input_shape: `tf.TensorShape`, the first axis is the batch.

        Returns:
            The shape of the output, of which the first axis is ignored.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `_setup`.")

    def _call(self, inputs, run):
        """Computes the output of the tensor `inputs` in a `Run`."""
        raise NotImplementedError(f"{type(self).__name__} must define `_call`.")

    def _prepare(self, run):
        """Puts into `run.values` what has to be the same wherever the run needs it."""
        for weight in self._weights.values():
            key, value = weight.variable.ref(), weight.variable.read_value()
            run.snapshot[key] = value
            run.values[key] = weight.in_use(value)

    def _penalties(self, run):
        """Returns a dict from `variable.ref()` to the penalty of each variable that has one."""
        own = {
            weight.variable.ref(): weight.regularizer(weight.value(run))
            for weight in self._weights.values()
            if weight.regularizer is not None
        }
        return tensors.largest([own, *(child._penalties(run) for child in self._children)])

    # Methods that a subclass calls.

    def track(self, layer):
        """Declares a layer below this one; declared twice it counts once. Returns it."""
        if not any(layer is child for child in self._children):
            self._children.append(layer)
        return layer

    def add_weight(
        self,
        name,
        shape,
        initializer,
        regularizer=None,
        masks=(),
        sizes=None,
        trainable=True,
        **kwargs,
    ):
        """Makes a variable, or finds it if it was made before.

        Args:
            name: String, unique in this layer.
            shape: Sequence of ints.
            initializer: As of `tf.get_variable`.
            regularizer: As in `Weight`.
            masks: As in `Weight`.
            sizes: As in `Weight`.
            trainable: Bool.
            **kwargs: Further arguments of `tf.get_variable`. Without `dtype` the variable has that
                of the variable scope, float32 unless the scope says otherwise.

        Returns:
            A `Weight`.

        Raises:
            ValueError: If it was made before with another shape.
        """
        if name not in self._weights:
            variable = tf.get_variable(
                name,
                shape,
                initializer=initializer,
                trainable=trainable,
                use_resource=True,
                **kwargs,
            )
            self._weights[name] = Weight(variable, tuple(masks), regularizer, sizes)
        made = self._weights[name].variable
        if not made.shape.is_compatible_with(shape):
            raise ValueError(
                f"A layer that is built again must keep its weights' shapes, but {made.name} has "
                f"{made.shape} and would need {shape}. Use another layer for inputs of another "
                "number of channels."
            )
        return self._weights[name]

    def weight(self, name):
        """Returns the `Weight` that `add_weight` made."""
        return self._weights[name]

    def __call__(self, inputs, run):
        """Computes the output of the tensor `inputs` in a `Run` that some root has started."""
        with tf.name_scope(self._name):
            return self._call(inputs, run)

    # Methods that users call.

    def build(self, input_shape):
        """Makes the variables that inputs of a shape need, unless they exist.

        Args:
            input_shape: Shape of the inputs, sequence or `tf.TensorShape`. The first axis is the
                batch, whose size matters nowhere; the others of images are height, width, channels.

        Returns:
            The shape of the output, `tf.TensorShape`; where there are several, of the first.

        Raises:
            ValueError: If the layer cannot have such inputs.
        """
        input_shape = tf.TensorShape(input_shape)
        key = tuple(input_shape.as_list()[1:])
        if key not in self._output_shapes:
            with tf.variable_scope(
                self._scope, default_name=self._name, auxiliary_name_scope=self._scope is None
            ) as self._scope:
                self._output_shapes[key] = tf.TensorShape(self._setup(input_shape))[1:]
        return input_shape[:1].concatenate(self._output_shapes[key])

    def apply(self, inputs, training):
        """Computes the output, with the weights as they are when this runs.

        All variables are read under the control dependencies that are open now. Operations that
        update moving averages are added to the graph's `tf.GraphKeys.UPDATE_OPS`.

        Args:
            inputs: Tensor of a shape that the layer was built for, up to the size of the batch.
                Float32, float64 or bfloat16: weights are cast to its type where they are used.
            training: Whether the layer is being trained, bool.

        Returns:
            The output, of the type of `inputs`.

        Raises:
            ValueError: If the layer was not built for inputs of this shape.
        """
        inputs = tf.convert_to_tensor(inputs)
        if tuple(inputs.shape.as_list()[1:]) not in self._output_shapes:
            raise ValueError(
                f"A layer must be built before it is applied, but {type(self).__name__} was not "
                f"built for inputs of shape {inputs.shape}. Call `layer.build(inputs.shape)`."
            )
        self._latest_run = self._start_run(training)
        outputs = self(inputs, self._latest_run)
        self._updates += self._latest_run.updates
        for update in self._latest_run.updates:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return outputs

    def trainable_variables(self):
        """Returns the list of trainable variables, each once, in the order they were made in."""
        return [
            weight.variable
            for layer in self._layers()
            for weight in layer._weights.values()
            if weight.variable.trainable
        ]

    def trainable_tensors(self):
        """Returns the values of `trainable_variables` in the latest run of this root."""
        values = self._run().snapshot
        return [values[variable.ref()] for variable in self.trainable_variables()]

    def regularization_loss(self):
        """Returns the penalty of the weights, a scalar.

        That is the sum over variables; one that several layers share counts once, with its
        largest penalty. It is taken of the weights as the latest run of this root saw them, or if
        there was none, as they are when this runs.
        """
        penalties = list(self._penalties(self._run()).values())
        return tf.add_n(penalties) if penalties else tf.zeros([])

    def updates(self):
        """Returns the list of operations that update moving averages, of all training runs."""
        return list(self._updates)

    def _built_shape(self, inputs):
        """Returns the shape of the output for a tensor, as it was built for the largest widths.

        The first axis is that of the tensor.
        """
        for key, shape in self._output_shapes.items():
            if inputs.shape[1:].is_compatible_with(key):
                return inputs.shape[:1].concatenate(shape)
        return self.build(inputs.shape)

    def _run(self):
        return self._latest_run or self._start_run(training=False)

    def _start_run(self, training):
        run = Run(training, {})
        for layer in self._layers():
            layer._prepare(run)
        return run

    def _layers(self):
        """Returns this layer and all below it, each once."""
        layers, pending = {}, [self]
        while pending:
            layer = pending.pop()
            if id(layer) not in layers:
                layers[id(layer)] = layer
                pending += reversed(layer._children)
        return list(layers.values())

    @property
    def _name(self):
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
