"""Runs a function once per tower, in lockstep, in one graph.

A *tower* is one copy of the model, built for one device. Towers are built one at a time, in tower
order, so the graph comes out the same every time. A tower runs until it returns or reaches a
*rendezvous* (`merge_call`): there it parks and the next one runs. Once all are parked, the merge
function runs once, in the *cross-tower context*, and every tower goes on with its part of the
result.

Each tower sees the graph as if it were alone: the collections, variable store, scopes and control
dependencies that it finds are those that tower 0 found, plus what a rendezvous left in all.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.engine import PerTower
from replicate.lockstep import LaterTower, Tower

# What later towers made and the session must know of: initialisers, and threads to start. All
# else that they put into collections would count twice.
_KEPT_COLLECTIONS = (
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.METRIC_VARIABLES,
    tf.GraphKeys.TABLE_INITIALIZERS,
    tf.GraphKeys.QUEUE_RUNNERS,
    "resources",  # Collections of resources to initialise, which `GraphKeys` does not publish.
    "local_resources",
)


class Towers:
    """The towers of one call of a replicated `model_fn`.

    Attributes:
        size: N, the number of towers.
        devices: One device string per tower.
        consolidation_device: Device string of what is computed once for all towers.
        variables: The `SharedVariables` of the towers.
        loss_weights: The `Weights` of the towers' losses and gradients.
        row_weights: The `Weights` of the towers' means, which add up to 1.
        graph: The graph under construction.
        applied: Operations that apply gathered gradients, in the order they were made.
        summed_on: Device strings of where gradients are summed.
        uses_nccl: Whether NCCL sums them.
        kept: Dictionary of what the later towers left in collections, by key, once built.
    """

    def __init__(self, devices, consolidation_device, variables, loss_weights, row_weights):
        self.size = len(devices)
        self.devices = devices
        self.consolidation_device = consolidation_device
        self.variables = variables
        self.loss_weights = loss_weights
        self.row_weights = row_weights
        self.graph = tf.get_default_graph()
        self.name_scope = self.graph.get_name_scope()
        self.merging = False
        self.applied = []
        self.summed_on = set()
        self.uses_nccl = False
        self.kept = {}
        self._entry = None
        self._first = None
        self._later = []
        self._failure = None

    @property
    def towers(self):
        """The `Tower`s, in order."""
        return [self._first, *self._later]

    def build(self, model):
        """Calls `model(index)` for every tower, in lockstep.

        Args:
            model: Function of the tower's index, called once in each tower's scopes.

        Returns:
            List of what the calls returned, in tower order.

        Raises:
            RuntimeError: If the towers rendezvous differently.
            Exception: Whatever `model` raises, with its own traceback and a note that names the
                tower.
        """
        self._first = Tower(self, 0, self.devices[0])
        self._later = [
            LaterTower(self, index, device, model)
            for index, device in enumerate(self.devices)
            if index
        ]
        entry = graph_lib.Marks(self.graph)
        self._entry = entry.copy_for_tower(0)
        for tower in self._later:
            tower.marks = entry.copy_for_tower(tower.index)
        try:
            with graph_lib.entered_once(self.graph):
                with self._first.scope():
                    try:
                        self._first.result = model(0)
                    except BaseException as error:
                        self._fail(error, f"Raised in {self._describe(self._first)}.")
                        raise
                if self._failure is not None:  # The model caught what a rendezvous raised.
                    raise self._failure
                self._resume_later(None)
            self.variables.check_complete(self.size)
        except BaseException:
            marks = graph_lib.Marks(self.graph)
            for tower in self._later:
                tower.stop()
            marks.put()
            raise
        for tower in self._later:
            tower.stop()
        self._keep_collections()
        return [tower.result for tower in self.towers]

    def meet(self, tower, call):
        """Brings `tower` to the rendezvous `call`; returns its part of the result."""
        if tower.index:
            tower.call = call
            tower.park()
            return tower.answer
        if self._failure is not None:  # The model caught what an earlier rendezvous raised.
            raise self._failure
        self._resume_later(call)
        answers = self._merge([call] + [later.call for later in self._later])
        for later, answer in zip(self._later, answers[1:]):
            later.answer = answer
        return answers[0]

    def _resume_later(self, call):
        """Runs every later tower until it reaches `call`, or returns if `call` is None."""
        marks = graph_lib.Marks(self.graph)
        try:
            for tower in self._later:
                tower.call = None
                if not tower.done:
                    tower.resume()
                if tower.error is not None:
                    self._fail(tower.error, f"Raised in {self._describe(tower)}.")
                    raise tower.error
                if not (call.same_as(tower.call) if call and tower.call else call is tower.call):
                    raise RuntimeError(
                        "All towers must make the same rendezvous in the same order, but tower 0 "
                        f"{_where(call)} and tower {tower.index} {_where(tower.call)}. Make these "
                        "calls in every tower, whatever `tower_index()` is."
                    )
        finally:
            marks.put()

    def _merge(self, calls):
        """Runs the merge function on the calls of all towers; returns one answer per tower."""
        first = graph_lib.Marks(self.graph)
        before = {key: set(map(id, items)) for key, items in first.collections.items()}
        waits = set().union(*(tower.marks.control_inputs for tower in self._later))
        args = [PerTower(values) for values in zip(*(call.args for call in calls))]
        self.merging = True
        try:
            with graph_lib.devices_of(self._entry, self.graph), tf.device(
                self.consolidation_device
            ), tf.control_dependencies(sorted(waits, key=lambda op: op.name)):
                result = calls[0].fn(*args)
            if isinstance(result, PerTower):
                result.of_towers(self.size)
        except Exception as error:
            self._fail(error, f"Raised in the merge function of {calls[0]}.")
            raise
        finally:
            self.merging = False
        for key, items in first.collections.items():
            for item in items:
                if id(item) not in before.get(key, ()):
                    for tower in self._later:
                        tower.marks.add_to_collection(key, item)
        for tower in self._later:
            for name, variable in first.variables_by_name.items():
                tower.marks.variables_by_name.setdefault(name, variable)
        return result if isinstance(result, PerTower) else [result] * self.size

    def _keep_collections(self):
        """Adds to tower 0's collections what the session must know of the later towers."""
        first = graph_lib.Marks(self.graph)
        for key in _KEPT_COLLECTIONS:
            known = set(map(id, first.collections.get(key, ())))
            self.kept[key] = [
                item
                for tower in self._later
                for item in tower.marks.collections.get(key, ())
                if id(item) not in known
            ]
        own = [*self.variables.copies, *self.variables.accumulated]
        self.kept[tf.GraphKeys.LOCAL_VARIABLES] += own
        for key, items in self.kept.items():
            for item in items:
                first.add_to_collection(key, item)

    def _describe(self, tower):
        return f"tower {tower.index} of {self.size}, on {tower.device}"

    def _fail(self, error, note):
        """Keeps `error` as the reason why the towers stop, and says in it where it happened."""
        if self._failure is not None:
            return
        self._failure = error
        if len(error.args) == 1 and str(error) == error.args[0]:
            error.args = (f"{error.args[0]}\n[{note}]",)
        elif hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"[{note}]")
        elif error.__cause__ is None:
            error.__cause__ = RuntimeError(note)


def _where(call):
    return "returned" if call is None else f"is at {call}"
