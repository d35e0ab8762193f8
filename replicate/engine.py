"""What every engine does for the model that runs on it.

An *engine* is what runs the model's copies: towers (`replicate.rendezvous`), the cores of a TPU
(`replicate.tpu`) or the replicas of a tf.distribute strategy (`replicate.distributed`). N is the
number of copies, and whatever the engine calls them, they are towers here.
"""


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


class Engine:
    """The model by itself: the only tower there is has the whole batch.

    Attributes:
        size: N, an integer.
        index: The index of this tower, 0 to N - 1: an integer, or an int32 scalar tensor where one
            graph serves all towers.
    """

    size = 1
    index = 0

    def mean_share(self, value):
        """Returns this tower's part of the mean over towers of `value`, a tensor."""
        return value

    def add(self, tensors):
        """Returns each tensor of a list summed over the towers; gradients do not pass.

        Where a tower has no rows, what it computes from them does not count.
        """
        return tensors

    def add_gradients(self, tensors, label):
        """Returns the gradients for the arguments of an `add`, from those for its results.

        Args:
            tensors: Gradients that this tower's loss has for the results.
            label: Which `add` it was; the same in all towers.
        """
        del label
        return tensors

    def meet(self, fn, args, label):
        """Calls the merge function `fn` once with the values of all towers.

        Args:
            fn: Function of one `PerTower` for each of `args`.
            args: This tower's values.
            label: By which the towers' calls are told apart.

        Returns:
            What `fn` returns; of a `PerTower` this tower's value.
        """
        del label
        result = fn(*(PerTower([arg]) for arg in args))
        return result.of_towers(1)[0] if isinstance(result, PerTower) else result

    def compute_gradients(self, compute, loss, args, kwargs):
        """Returns what an optimizer's `compute_gradients` does, for this tower's loss as it is."""
        return compute(loss, *args, **kwargs)

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Gathers the gradients of all towers and applies them.

        Args:
            optimizer: The `TowerOptimizer`.
            grads_and_vars: List of this tower's `(gradient, variable)` pairs.
            args: What the wrapped optimizer's `apply_gradients` takes besides.
            kwargs: Likewise.
        """
        return optimizer.apply_gathered(grads_and_vars, args, kwargs)
