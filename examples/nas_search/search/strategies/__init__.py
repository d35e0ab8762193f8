"""Strategies of a search: how it picks a network once the shared weights are trained.

    reinforce   a controller learns while the weights are trained, and picks its most probable
                network: see `model_fn.py`
    random      evaluates networks drawn at random, and picks the best
    evolution   evaluates offspring of the best of late, and picks the best

The last two have two parts. In the first, `supernet_steps` steps train the weights, of networks
that are drawn at random and cost the target on average: the step is that of `reinforce`, whose
controller never learns. In the second, the other steps evaluate networks with these weights, one
network per tower in each step, all of which cost the target or nearly as much.
They need no controller, so that the history of evaluated networks is all that they depend on.
"""

from examples.nas_search.search.strategies.found import found, steps_done
from examples.nas_search.search.strategies.history import Evaluation
from examples.nas_search.search.strategies.registry import (
    STRATEGIES,
    has_controller,
    initial_logits,
    resolve,
    supernet_steps,
    training_steps,
)

__all__ = (
    "STRATEGIES",
    "Evaluation",
    "found",
    "has_controller",
    "initial_logits",
    "resolve",
    "steps_done",
    "supernet_steps",
    "training_steps",
)
