"""Where the variables of a model that runs as towers are placed."""

import contextlib
import itertools

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib


class SharedVariables:
    """The variables that the towers of one graph share.

    Args:
        devices: Device strings on which they are placed in turn. A device scope that `model_fn`
            opens around a variable has precedence.
        worker: Device string of the job and task that the towers belong to, for variables that the
            workers of a cluster do not share; empty outside a cluster.
        replicas: The `Replicas` of what is trained, None if there are none.
    """

    def __init__(self, devices, worker="", replicas=None):
        self._devices = itertools.cycle(devices)
        self.worker = worker
        self.replicas = replicas
        self.accumulated = []
        """What the towers accumulate gradients in, variables that belong to a session."""
        self.made = []
        """All variables that were made while the model was built."""

    @property
    def shared(self):
        """The variables of the model, in the order in which they were made."""
        return [variable for variable, is_local in self.made if not is_local]

    @property
    def of_session(self):
        """What towers have of their own: it belongs to a session, and is not saved as such."""
        return self.accumulated + (self.replicas.later if self.replicas else [])

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
                if self.replicas and getattr(variable, "trainable", False) and not is_local:
                    with tf.init_scope():
                        self.replicas.make(variable, towers)
            return variable

        return create

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
