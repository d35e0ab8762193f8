"""Towers that are built by threads of their own, of which exactly one runs at a time.

Tower 0 is built by the caller's thread, which hands control to each later tower in turn and gets it
back when that tower parks at a rendezvous, or is done.
"""

import contextlib
import contextvars
import threading

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib

_local = threading.local()


def running_tower():
    """Returns the `Tower` that the running thread builds, None if it builds none."""
    return getattr(_local, "tower", None)


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


class LaterTower(Tower):
    """A tower built by a thread of its own, which runs only while the caller's thread waits."""

    def __init__(self, towers, index, device, model):
        super().__init__(towers, index, device)
        self._model = model
        self._variable_scope = graph_lib.VariableScope()
        self._turn = threading.Condition()
        self._runs = False  # Whether it is this tower's turn; guarded by `_turn`.
        self._stopping = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._build,), name=f"tower_{index}", daemon=True
        )

    def resume(self):
        """Lets the tower run until it parks or is done; called by tower 0's thread."""
        if self._thread.ident is None:
            self._thread.start()
        with self._turn:
            self._runs = True
            self._turn.notify()
            self._turn.wait_for(lambda: not self._runs)

    def stop(self):
        """Unwinds the tower wherever it is, and waits until its thread has ended."""
        if self._thread.ident is None:
            return
        with self._turn:
            self._turn.wait_for(lambda: not self._runs)  # It runs if an interrupt ended `resume`.
            self._stopping = True
            self._runs = not self.done
            self._turn.notify()
        self._thread.join()

    def park(self):
        """Hands control to tower 0's thread until that resumes this tower."""
        if self._stopping:  # The model caught what was to unwind it.
            raise _Stopped
        self.marks = graph_lib.Marks(self.towers.graph)
        with self._turn:
            self._runs = False
            self._turn.notify()
        self._wait()

    def _wait(self):
        with self._turn:
            self._turn.wait_for(lambda: self._runs)
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
        except BaseException as error:  # Whatever it is, it reaches the caller.
            self.error = error
        finally:
            self.marks = graph_lib.Marks(graph)
            with self._turn:
                self.done = True
                self._runs = False
                self._turn.notify()
