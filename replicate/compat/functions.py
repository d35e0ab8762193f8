"""The functions of a graph, and those that its copies call in their place."""

# Of seeds of random operations. Far apart, so that copies whose seeds
# differ do not meet the seeds that TensorFlow gives out one by one.
_SEED_STRIDE = 1000003


def change_seed(node, index):
    """Lets the copy of a random operation, a `NodeDef`, draw other numbers, if it has a seed."""
    if "seed2" not in node.attr or "seed" not in node.attr:
        return
    seed, second = node.attr["seed"], node.attr["seed2"]
    if seed.WhichOneof("value") == "i" and (seed.i or second.i):  # Both 0: it draws its own seed.
        second.i += index * _SEED_STRIDE


class Bodies:
    """The functions of a graph, and those of one tower: on its device, and with seeds of its own.

    Args:
        functions: Function that returns those of the graph, by name.
        suffix: What the names of the tower's end with.
        devices: The tower's devices, by tower 0's.
        seed: What tells the tower's random numbers from tower 0's; 0 if they are the same.

    Attributes:
        added: Those of the tower, `FunctionDef`s.
    """

    def __init__(self, functions, suffix, devices, seed=0):
        self._functions = functions
        self._suffix = suffix
        self._devices = devices
        self._seed = seed
        self._names = {}  # Of the tower's functions, by those that they are made of.
        self.added = []

    def change(self, node):
        """Lets a node call the tower's functions."""
        for attr in node.attr.values():
            for function in [attr.func, *attr.list.func]:
                if function.name:
                    function.name = self._own(function.name)

    def _own(self, name):
        if name not in self._names:
            self._names[name] = name
            body = self._functions().get(name)
            if body is not None and self._is_other(body, set()):
                self._names[name] = name + self._suffix
                own = type(body)()
                own.CopyFrom(body)
                own.signature.name = self._names[name]
                for node in own.node_def:
                    change_seed(node, self._seed)
                    node.device = self._devices.get(node.device, node.device)
                    self.change(node)
                self.added.append(own)
        return self._names[name]

    def _is_other(self, body, seen):
        """Whether a function, a `FunctionDef`, or one that it calls, is another in the tower."""
        seen.add(body.signature.name)
        bodies = self._functions()
        for node in body.node_def:
            seeds = self._seed and "seed2" in node.attr
            if seeds and (node.attr["seed"].i or node.attr["seed2"].i):
                return True
            if self._devices.get(node.device, node.device) != node.device:
                return True
            for name in functions_of(node):
                if name in bodies and name not in seen and self._is_other(bodies[name], seen):
                    return True
        return False


def function_bodies(graph):
    """Returns the functions in `graph`, `FunctionDef`s, by their names."""
    return {body.signature.name: body for body in graph.as_graph_def().library.function}


def functions_of(node):
    """Returns the names of the functions that the `NodeDef` calls."""
    names = [attr.func.name for attr in node.attr.values()]
    names += [function.name for attr in node.attr.values() for function in attr.list.func]
    return [name for name in names if name]
