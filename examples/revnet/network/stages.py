"""The stages of a RevNet, with a backward pass that recomputes their activations.

The forward pass saves the input of each stage and a few numbers per channel of each unit. What
more it saves, to be faster, does not grow with the number of units:

    the input of the second unit of the first stage   without it, half of recomputing that unit is
                                                      for reconstructing its input
    activations of the last units of other stages     see `stored_activations.py`
"""

from typing import Any, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from examples.revnet.network import stored_activations
from examples.revnet.network.reversible_units import DownsamplingUnit, Unit

_WITH_INPUTS = 2  # first units of the first stage
_FIRST_ORDER = (
    "A RevNet that recomputes its activations has gradients of first order only, but its gradients "
    "are differentiated. Make it with `recompute=False`."
)


class Saved(NamedTuple):
    """Tensors that the forward pass saves of a unit. Those that are recomputed are empty."""

    x: Tuple[Any, ...]  # pair, its input
    kept: List[Any]  # see `Unit.forward`
    activations: List[Any]  # likewise, or of these the inputs of layers


class Body(tf.keras.layers.Layer):
    """All stages, as a function of a pair.

    Args:
        config: A `RevNetConfig`.
    """

    def __init__(self, config):
        super().__init__(dtype=config.variable_dtype)
        self._recompute, self._stored = config.recompute, stored_activations.plan(config)
        self.stages = []
        width = config.initial_filters
        for stage, (units, filters, stride, out_width) in enumerate(
            zip(config.units, config.filters, config.strides, config.stage_widths)
        ):
            place = f"stage_{stage}/unit_0"
            # The stem has normalised the input of the first stage already.
            norm_first = stage > 0
            first = DownsamplingUnit(config, width, out_width, filters, stride, place, norm_first)
            others = [
                Unit(config, out_width, out_width, filters, 1, f"stage_{stage}/unit_{unit}")
                for unit in range(1, units)
            ]
            self.stages.append([first, *others])
            width = out_width

    @property
    def learned(self):
        """The weights that have gradients, frozen or not: a list."""
        return [weight for stage in self.stages for unit in stage for weight in unit.learned]

    def values(self):
        """Returns the values of the learned weights: lists by unit in lists by stage."""
        return [[unit.values() for unit in stage] for stage in self.stages]

    def infer(self, x):
        """Computes all stages with the moving statistics; takes and returns a pair."""
        for stage in self.stages:
            for unit in stage:
                x = unit.infer(x)
        return x

    def train(self, x, values):
        """Computes all stages in training, with a gradient that recomputes activations.

        Args:
            x: Pair.
            values: What `values` returns.

        Returns:
            Pair, and what was `Saved` of each unit: lists by unit in a list by stage.
        """
        if not self._recompute:
            return self.forward(x, values)
        saved = []

        @tf.custom_gradient
        def trained(*flat):
            # Else an eager tape would record what is computed here, and keep it.
            flat = [tf.stop_gradient(each) for each in flat]
            x, values = flat[:2], tf.nest.pack_sequence_as(structure, flat[2:])
            y, of_stages = self.forward(x, values)
            saved.extend(of_stages)

            def gradient(*dy):
                dx, d_values = self.backward(y, dy, of_stages, values)
                return [*dx, *tf.nest.flatten(d_values)]

            return y, gradient

        structure = values
        return trained(*x, *tf.nest.flatten(values)), saved

    def forward(self, x, values):
        """Computes all stages in training, as `train` does, with TensorFlow's own gradient.

        Args:
            x: Pair.
            values: What `values` returns.

        Returns:
            Pair, and what was `Saved` of each unit: lists by unit in a list by stage.
        """
        saved = []
        for stage, of_stage in enumerate(values):
            saved.append([])
            for unit, of_unit in enumerate(of_stage):
                x, of_pass = self._forward_unit(stage, unit, x, of_unit)
                saved[-1].append(of_pass)
        return x, saved

    def backward(self, y, dy, saved, values):
        """Goes back through all stages.

        Args:
            y: Pair, what `forward` returned.
            dy: Pair, the gradients for it.
            saved: The second result of `forward`.
            values: What it was called with.

        Returns:
            The pair of gradients for its input, and those for `values`, likewise in lists.
        """
        found = []
        for stage, of_stage, values_of_stage in reversed(list(zip(self.stages, saved, values))):
            of_units = []
            for unit, (x, *of_pass), of_unit in reversed(
                list(zip(stage, of_stage, values_of_stage))
            ):
                y, dy, gradients = unit.backward(x or None, y, dy, *of_pass, of_unit)
                of_units.insert(0, self._of_first_order(gradients))
            found.insert(0, of_units)
        return self._of_first_order(dy), found

    def _of_first_order(self, gradients):
        """Returns gradients that cannot be differentiated if activations are recomputed.

        To TensorFlow, the saved tensors are constants, so gradients of these gradients would lack
        the terms that depend on them.
        """
        if not self._recompute:
            return gradients
        # Each by itself: a custom gradient would have them wait for each other.
        return [tf.raw_ops.PreventGradient(input=each, message=_FIRST_ORDER) for each in gradients]

    def _forward_unit(self, stage, unit, x, values):
        """Returns what a unit gives, and what is `Saved` of it; no name holds what is not."""
        y, kept, activations = self.stages[stage][unit].forward(x, values)
        stored = self._stored[stage][unit]
        if stored == stored_activations.NOTHING:
            activations = []
        elif stored == stored_activations.INPUTS:
            activations = [[each._replace(z=None) for each in function] for function in activations]
        return y, Saved(x if self._keeps_input(stage, unit) else (), kept, activations)

    def _keeps_input(self, stage, unit):
        if unit < (_WITH_INPUTS if stage == 0 else 1):
            return True
        # A unit that recomputes goes by what it returned, the input of the one above.
        below, stored = self._stored[stage][unit - 1 : unit + 1]
        return stored != stored_activations.NOTHING and below == stored_activations.NOTHING

    def updates(self, saved):
        """Yields each moving statistic, a variable, and the value of the batch that moves it."""
        for stage, of_stage in zip(self.stages, saved):
            for unit, of_unit in zip(stage, of_stage):
                for function, kept in zip((unit.f, unit.g), of_unit.kept):
                    yield from function.updates(kept)
