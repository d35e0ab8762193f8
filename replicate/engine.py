"""What every engine does for the model that runs on it.

An *engine* is what runs the model's copies: towers (`replicate.rendezvous`), the cores of a TPU
(`replicate.tpu`) or the replicas of a tf.distribute strategy (`replicate.distributed`). N is the
number of copies, and whatever the engine calls them, they are towers here.
"""

import abc


class PerTower(tuple):
    """One value for each tower, in tower order; what a merge function takes, and may return."""

    def of_towers(self, size):
        """Returns itself, the values of `size` towers; raises if there are more or fewer.

        Raises:
            ValueError: If so.
        """
        if len(self) != size:
            raise ValueError(
                f"A `PerTower` result must hold one value for each of {size} towers, but holds "
                f"{len(self)}. Return a plain value to give all towers the same."
            )
        return self


class Engine(abc.ABC):
    """How the towers of one engine meet, as this tower sees it.

    Attributes:
        size: N, an integer.
        index: The index of this tower, 0 to N - 1: an integer, or an int32 scalar tensor where one
            graph serves all towers.
        checks_gradients: Whether it can end training at gradients that are not finite.
        sees_all: Whether merge functions get the values of all towers.
    """

    checks_gradients = False
    sees_all = True

    @abc.abstractmethod
    def mean_share(self, value):
        """Returns this tower's part of the mean over towers of `value`, a tensor."""

    @abc.abstractmethod
    def add(self, tensors):
        """Adds up tensors over the towers.

        Where a tower has no rows, what it computes from them does not count.

        Args:
            tensors: List of this tower's tensors.

        Returns:
            The list of sums, through which no gradients pass, and a name for them that is the same
            in all towers.
        """

    @abc.abstractmethod
    def add_gradients(self, tensors, label):
        """Returns the gradients for the arguments of an `add`, from those for its results.

        Args:
            tensors: Gradients that this tower's loss has for the results.
            label: Which `add` it was; the same in all towers.
        """

    @abc.abstractmethod
    def meet(self, fn, args, label):
        """Calls the merge function `fn` once with the values of all towers.

        Args:
            fn: Function of one `PerTower` for each of `args`.
            args: This tower's values.
            label: By which the towers' calls are told apart.

        Returns:
            What `fn` returns; of a `PerTower` this tower's value.
        """

    def compute_gradients(self, optimizer, loss, args, kwargs):
        """Returns the gradients of this tower's loss as it is.

        Args:
            optimizer: The `TowerOptimizer`.
            loss: The loss.
            args: What the wrapped optimizer's `compute_gradients` takes besides.
            kwargs: Likewise.
        """
        return optimizer.optimizer.compute_gradients(loss, *args, **kwargs)

    @abc.abstractmethod
    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Gathers the gradients of all towers and applies them.

        Args:
            optimizer: The `TowerOptimizer`.
            grads_and_vars: List of this tower's `(gradient, variable)` pairs.
            args: What the wrapped optimizer's `apply_gradients` takes besides.
            kwargs: Likewise.
        """


class Alone(Engine):
    """The model by itself: the only tower there is has the whole batch."""

    size = 1
    index = 0
    checks_gradients = True

    def mean_share(self, value):
        """Returns `value`."""
        return value

    def add(self, tensors):
        """Returns `tensors`."""
        return tensors, ""

    def add_gradients(self, tensors, label):
        """Returns `tensors`."""
        del label
        return tensors

    def meet(self, fn, args, label):
        """Calls `fn` with `PerTower`s of one value."""
        del label
        result = fn(*(PerTower([arg]) for arg in args))
        return result.of_towers(1)[0] if isinstance(result, PerTower) else result

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Applies the gradients."""
        with optimizer.step.checked([grads_and_vars]):
            return optimizer.step.apply(grads_and_vars, args, kwargs)
