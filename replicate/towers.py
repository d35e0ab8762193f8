"""Runs a function once per tower, in lockstep, in one graph.

A *tower* is one copy of the model, built for one device. Each tower is built by a thread of its
own (tower 0 by the caller's), and exactly one runs at a time, in tower order, so the graph comes
out the same every time. A tower runs until it returns or reaches a *rendezvous* (`merge_call`):
there it parks and the next one runs. Once all are parked, the merge function runs once, in the
*cross-tower context*, and every tower goes on with its part of the result.

Each tower sees the graph as if it were alone: the collections, variable store, scopes and control
dependencies that it finds are those that tower 0 found, plus what a rendezvous left in all.
"""

import contextlib
import contextvars
import sys
import threading
from typing import Callable, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib

_local = threading.local()

MERGE_CALL = "merge_call"  # How the labels of users' own rendezvous start.

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


class PerTower(tuple):
    """One value for each tower, in tower order; what a merge function takes, and may return."""


class _Call(NamedTuple):
    """A rendezvous as one tower reached it."""

    fn: Callable
    args: tuple
    label: str  # Tells calls apart: towers must meet in calls of equal labels.
    site: str

    def __str__(self):
        return f"{self.label}, called at {self.site}"


class _Stopped(BaseException):
    """Unwinds a parked tower after another one failed; no `except Exception` holds it up."""


class Tower:
    """One tower while it is built.

    Attributes:
        index: Its position, 0 to `towers.size - 1`.
        device: The device string of its operations.
        towers: The `Towers` it belongs to.
    """

    def __init__(self, towers, index, device):
        self.towers = towers
        self.index = index
        self.device = device
        self.device_depth = None  # Device scopes open where the model starts.
        self.name_scope = ""
        self.marks = None  # The graph's marks for this tower while it does not run.
        self.call = None  # The rendezvous it waits at.
        self.answer = None
        self.result = None
        self.error = None
        self.done = False
        self.declarations = []  # What `replicate.metrics.declare_merge` was told in this tower.

    @contextlib.contextmanager
    def scope(self):
        """The scopes in which the model is built."""
        graph = self.towers.graph
        _local.tower = self
        try:
            with contextlib.ExitStack() as stack:
                if self.index:
                    # The name stack is the thread's own, so the caller's scope is entered anew.
                    if self.towers.name_scope:
                        stack.enter_context(tf.name_scope(self.towers.name_scope + "/"))
                    stack.enter_context(tf.name_scope(f"tower_{self.index}"))
                self.name_scope = graph.get_name_scope()
                stack.enter_context(tf.device(self.device))
                self.device_depth = graph_lib.device_depth(graph)
                creator = self.towers.variables.creator(self)
                stack.enter_context(tf.variable_creator_scope(creator))
                yield
        finally:
            _local.tower = None


class _LaterTower(Tower):
    """A tower built by a thread of its own, which runs only while the caller's thread waits."""

    def __init__(self, towers, index, device, model):
        super().__init__(towers, index, device)
        self._model = model
        self._variable_scope = graph_lib.VariableScope()
        self._go = threading.Semaphore(0)
        self._parked = threading.Semaphore(0)
        self._running = False
        self._stopping = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._build,), name=f"tower_{index}", daemon=True
        )
        self._thread.start()

    def resume(self):
        """Lets the tower run until it parks or is done; called by tower 0's thread."""
        self._running = True
        self._go.release()
        self._parked.acquire()
        self._running = False

    def stop(self):
        """Unwinds the tower wherever it is, and waits until its thread has ended."""
        if self._running:  # An interrupt ended the wait in `resume`; the tower parks in time.
            self._parked.acquire()
        self._stopping = True
        self._go.release()
        self._thread.join()

    def join(self):
        """Waits for the thread of a tower that is done."""
        self._thread.join()

    def park(self):
        """Hands control to tower 0's thread until that resumes this tower."""
        self.marks = graph_lib.Marks(self.towers.graph)
        self._parked.release()
        self._wait()

    def _wait(self):
        self._go.acquire()
        self.marks.put()
        if self._stopping:
            raise _Stopped

    def _build(self):
        graph = self.towers.graph
        try:
            self._wait()
            with graph.as_default():
                self._variable_scope.enter()
                with self.scope():
                    self.result = self._model(self.index)
        except BaseException as error:  # Whatever it is, it reaches the caller in `resume_all`.
            self.error = error
        finally:
            self.marks = graph_lib.Marks(graph)
            self.done = True
            self._parked.release()


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
        kept: Dictionary of what the later towers left in collections, by key, once built.
        meetings: The labels of the calls in which the towers met.
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
        self.kept = {}
        self.meetings = set()
        self._entry = None
        self._first = None
        self._later = []
        self._failure = None

    @property
    def towers(self):
        """The `Tower`s, in order."""
        return [self._first] + self._later

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
            _LaterTower(self, index, device, model)
            for index, device in enumerate(self.devices)
            if index
        ]
        entry = graph_lib.Marks(self.graph)
        self._entry = entry.copy_for_tower(0)
        for tower in self._later:
            tower.marks = entry.copy_for_tower(tower.index)
        try:
            with self._first.scope():
                try:
                    self._first.result = model(0)
                except BaseException as error:
                    self._fail(error, f"Raised in {self._describe(self._first)}.")
                    raise
            if self._failure is not None:  # The model caught what a rendezvous raised.
                raise self._failure
            self._resume_later(None)
            self.variables.check_complete()
        except BaseException:
            marks = graph_lib.Marks(self.graph)
            for tower in self._later:
                tower.stop()
            marks.put()
            raise
        for tower in self._later:
            tower.join()
        self._keep_collections()
        return [tower.result for tower in self.towers]

    def meet(self, tower, call):
        """Brings `tower` to the rendezvous `call`; returns its part of the result."""
        if tower.index:
            tower.call = call
            tower.park()
            return tower.answer
        self._resume_later(call)
        self.meetings.add(call.label)
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
                if (call and call.label) != (tower.call and tower.call.label):
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
            if isinstance(result, PerTower) and len(result) != self.size:
                raise ValueError(
                    f"A `PerTower` result must hold one value for each of {self.size} towers, but "
                    f"holds {len(result)}. Return a plain value to give all towers the same."
                )
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
        self.kept[tf.GraphKeys.LOCAL_VARIABLES] += self.variables.copies
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


def current():
    """Returns the `Tower` that is being built here, None outside and in merge functions."""
    tower = getattr(_local, "tower", None)
    return None if tower is None or tower.towers.merging else tower


def merging():
    """Returns the `Towers` whose merge function runs here, None elsewhere."""
    tower = getattr(_local, "tower", None)
    return tower.towers if tower is not None and tower.towers.merging else None


def num_towers():
    """Returns N, the number of towers that the model runs as; 1 outside towers."""
    tower = getattr(_local, "tower", None)
    return 1 if tower is None else tower.towers.size


def tower_index():
    """Returns the index of this tower, 0 to N - 1; 0 outside towers and in merge functions."""
    tower = getattr(_local, "tower", None)
    return 0 if tower is None else tower.index


def merge_call(fn, *args):
    """Calls `fn` once for all towers, with the arguments of every tower.

    All towers wait for one another here. `fn` runs once, on the consolidation device, in tower 0's
    name and variable scopes, and after the control dependencies that are open in any tower: the
    place for what must happen once per step, such as updating a running baseline.

        def update(values):
            return baseline.assign(0.9 * baseline + 0.1 * tf.add_n(values) / len(values))

        baseline_now = replicate.merge_call(update, tf.reduce_mean(reward))

    Args:
        fn: Function that takes one `PerTower` of N values for each of `args`. It must be the same
            function in every tower, and must not itself rendezvous.
        *args: This tower's values, of any type, None included.

    Returns:
        What `fn` returns; of a `PerTower`, the value at this tower's index. Outside towers, `fn`
        is called with `PerTower`s of one value.

    Raises:
        RuntimeError: If the towers meet in different calls, or in the body of a `tf.cond` or
            `tf.while_loop`.
        ValueError: If `fn` returns a `PerTower` of another length than N.
    """
    code = getattr(getattr(fn, "func", fn), "__code__", None)
    name = getattr(fn, "__qualname__", None) or repr(fn)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return rendezvous(fn, args, f"{MERGE_CALL} of {name}{where} with {len(args)} arguments")


def rendezvous(fn, args, label):
    """`merge_call` under a label of its own, by which the towers' calls are told apart."""
    tower = getattr(_local, "tower", None)
    if tower is None:
        result = fn(*(PerTower([arg]) for arg in args))
        return result[0] if isinstance(result, PerTower) else result
    call = _Call(fn, args, label, _call_site())
    if tower.towers.merging:
        raise RuntimeError(
            f"A merge function must not rendezvous, but this one reached {call}. It already has "
            "the values of all towers: combine them there."
        )
    if graph_lib.in_control_flow(tower.towers.graph):
        raise RuntimeError(
            "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or function, "
            f"which may run any number of times, but tower {tower.index} reached {call}. Make the "
            "call before or after the body, on what it takes or returns."
        )
    return tower.towers.meet(tower, call)


def _call_site():
    """Returns `file:line` of the nearest caller outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("replicate."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _where(call):
    return "returned" if call is None else f"is at {call}"
