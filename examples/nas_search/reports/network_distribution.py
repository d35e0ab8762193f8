"""The distribution over networks that a controller's logits make.

A *node* is a choice of the space. Its alternatives have the probabilities that the softmax of its
logits gives them, whatever other nodes choose. A node is *reached* if the branch that it stands in
is taken: the kernel size of a skipped layer is not. Entropies are in nats.
"""

import numpy as np

from examples.nas_search import schema


def open_nodes(space):
    """Returns the nodes of a space in visiting order, as pairs (tuple path, `OneOf`)."""
    oneofs = []
    schema.map_oneofs_with_tuple_paths(lambda *node: oneofs.append(node) or node[1], space)
    return oneofs


def entropy(oneofs, probabilities):
    """Returns the entropy of independent nodes as a distribution over distinct networks.

    A node that is not reached does not matter to a network. By the chain rule the entropy is
    Σ P(node is reached) · entropy of the node.

    Args:
        oneofs: N pairs (tuple path, `OneOf`), as `open_nodes` gives them.
        probabilities: N vectors, the probability of each alternative.

    Returns:
        Float, in nats.
    """
    taken = {path: row for (path, _), row in zip(oneofs, probabilities)}
    return float(
        sum(
            np.prod([taken[outer][choice] for outer, choice in enclosing(path, taken)])
            * entropy_of_node(row)
            for (path, _), row in zip(oneofs, probabilities)
        )
    )


def log_probability(oneofs, probabilities, indices):
    """Returns the logarithm of the probability with which a controller draws a network.

    A node that the network does not reach may choose what it likes.

    Args:
        oneofs: N pairs (tuple path, `OneOf`), as `open_nodes` gives them.
        probabilities: N vectors, the probability of each alternative.
        indices: N ints, the alternatives that make the network.

    Returns:
        Float <= 0.
    """
    chosen = {path: index for (path, _), index in zip(oneofs, indices)}
    return float(
        sum(
            np.log(row[chosen[path]])
            for (path, _), row in zip(oneofs, probabilities)
            if all(chosen[outer] == choice for outer, choice in enclosing(path, chosen))
        )
    )


def enclosing(path, paths):
    """Returns the nodes that must choose for the node at `path` to be reached.

    Args:
        path: Tuple path of a node.
        paths: Container of the tuple paths of all nodes.

    Returns:
        List of pairs (tuple path of the outer node, index of the choice that leads to `path`).
    """
    return [
        (path[:i], path[i + 1])
        for i, element in enumerate(path)
        if element == "choices" and path[:i] in paths
    ]


def softmax(logits):
    """Returns the probabilities, float64, that logits stand for."""
    shifted = np.exp(np.array(logits, np.float64) - np.max(logits))
    return shifted / shifted.sum()


def entropy_of_node(probabilities):
    """Returns the entropy of one node by the probabilities of its alternatives, an array."""
    positive = probabilities[probabilities > 0]
    return float(-np.sum(positive * np.log(positive)))


def name_of(path):
    """Returns a tuple path as text, e.g. `blocks/0/filters`."""
    return "/".join(map(str, path))
