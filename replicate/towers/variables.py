"""Where the variables of a model that runs as towers are placed."""

import contextlib
import itertools

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat.repetition import ReplicationError
from replicate.gathering import packing
from replicate.towers import placement
from replicate.towers.replicas import Replicas


class SharedVariables:
    """The variables that the towers of one graph share.

    Args:
        placed: The `Placement`. A device scope that `model_fn` opens around a variable has
            precedence.
        cluster: The `Cluster`.
    """

    def __init__(self, placed, cluster):
        self._devices = itertools.cycle(cluster.variable_devices(placed.devices))
        self.placement = placed
        self.worker = cluster.worker
        """Device string of the job and task that the towers belong to, for variables that the
        workers of a cluster do not share; empty outside a cluster."""
        self._is_open = placed.is_auto and placed.where == "replicated"
        self.replicas = None
        """The `Replicas` of what is trained, None if there are none, or none yet."""
        if placed.where == "replicated" and not self._is_open:
            self.replicas = Replicas()
        self._left = []  # Replicas that were given up, but are updated all the same.
        self.accumulated = []
        """What the towers accumulate gradients in, variables that belong to a session."""
        self.prefetched = []
        """What the next batch is staged in, variables that belong to a session, too."""
        self.made = []
        """All variables that were made while the model was built."""

    @property
    def shared(self):
        """The variables of the model, in the order in which they were made."""
        return [variable for variable, is_local in self.made if not is_local]

    @property
    def of_session(self):
        """What towers have of their own: it belongs to a session, and is not saved as such."""
        later = self.replicas.later if self.replicas else []
        return self.accumulated + self.prefetched + self._left + later

    def of_handle(self, handle):
        """Returns the variable that a tensor is the handle of, None if there is none."""
        for variable in itertools.chain((v for v, _ in self.made), tf.global_variables()):
            if variable.op is handle.op or getattr(variable, "handle", None) is handle:
                return variable
        return None

    def creator(self, towers):
        """Returns the variable creator for `tf.variable_creator_scope`."""

        def create(next_creator, **kwargs):
            collections = kwargs.get("collections") or ()
            is_local = (
                tf.GraphKeys.LOCAL_VARIABLES in collections
                or tf.GraphKeys.METRIC_VARIABLES in collections
            )
            device = self._place(towers, is_local)
            with tf.device(device) if device else contextlib.nullcontext():
                variable = next_creator(**kwargs)
            if self.replicas and towers.merging:
                self.replicas.made_by_optimizer(variable)
            # In the body of a loop, a variable is made outside of it.
            if not towers.merging and getattr(variable, "graph", None) is towers.graph:
                self.made.append((variable, is_local))
                if self.replicas and _is_trained(variable, is_local):
                    self._replicate(variable, towers)
            return variable

        return create

    def settle(self, towers):
        """Makes replicas of what is trained, if they were left open, and the model allows it.

        All that a model trains is usually there when its gradients are.
        """
        if not self._is_open:
            return
        self._is_open = False
        trained = [variable for variable, is_local in self.made if _is_trained(variable, is_local)]
        size = sum(map(packing.size_of_variable, trained))
        if size <= placement.SMALL:
            self.share(f"all {size} bytes of weights are one small pack", towers)
            return
        self.replicas = Replicas()
        for variable in trained:
            if self.replicas:
                self._replicate(variable, towers)

    def _replicate(self, variable, towers):
        if self.placement.is_auto and not self.placement.has(variable):
            place = variable.device or "no device"
            self.share(f"the model places '{variable.name}' on {place}", towers)
            return
        with tf.init_scope():
            self.replicas.make(variable, towers)

    @contextlib.contextmanager
    def shared_if_not_followed(self, towers):
        """A scope that gives replicas up that were our choice where they cannot follow.

        Raises:
            ReplicationError: If they were not, in the scope.
        """
        try:
            yield
        except ReplicationError as error:
            if not self.placement.is_auto:
                raise
            self.share(error.reason, towers)

    def complete(self, fetches, towers):
        """Settles what was left open, and sees that replicas can follow, once the model is built.

        Replicas that were our choice are given up for what a hook may run at any time, too.

        Args:
            fetches: Operations and tensors that a step runs.
            towers: The `Towers`.

        Raises:
            ReplicationError: If users chose them, and something else than an optimizer changes what
                they are of.
        """
        self.settle(towers)
        if self.replicas:
            with self.shared_if_not_followed(towers):
                self.replicas.check_assigned(fetches, towers, self.placement.is_auto)

    def share(self, why, towers):
        """Gives replicas up that were our choice: all towers share tower 0's variables.

        Args:
            why: What they cannot follow.
            towers: The `Towers`, not finished.
        """
        if self.replicas:
            self.replicas.give_up(towers)
            self._left = self.replicas.later
        self.replicas = None
        self.placement = self.placement._replace(where="consolidation", why=f"since {why}")

    def where_summed(self, where, towers):
        """Returns where gradients are summed: `'consolidation'`, `'round_robin'` or `'in_turn'`.

        Args:
            where: What the `Gather` says, `'round_robin'` or `'auto'`.
            towers: The `Towers`, whose gradients are there.
        """
        self.settle(towers)
        if self.replicas:
            return "in_turn"
        is_open = where == placement.AUTO or self.placement.is_auto
        return self.placement.where if is_open else where

    def _place(self, towers, is_local):
        depth = graph_lib.device_depth(tf.get_default_graph())
        if is_local:
            # A smaller depth means that it is colocated with something.
            return self.worker if depth >= towers.device_depth else ""
        if depth != towers.device_depth:
            # The caller chose a device, or colocates, or it is made once for all towers, where
            # they meet: a slot, a running baseline.
            return ""
        return next(self._devices)


def _is_trained(variable, is_local):
    return getattr(variable, "trainable", False) and not is_local
