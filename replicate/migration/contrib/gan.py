"""Functions of `tf.contrib.gan` to which tensorflow-gan added arguments between the others."""

from __future__ import annotations

import importlib
from typing import Any

from replicate.migration.contrib.respelling import respelled

# The arguments that `tf.contrib.gan` had, in its order.
_ARGUMENTS = {
    "gan_loss": "!model generator_loss_fn discriminator_loss_fn gradient_penalty_weight "
    "gradient_penalty_epsilon gradient_penalty_target gradient_penalty_one_sided "
    "mutual_information_penalty_weight aux_cond_generator_weight aux_cond_discriminator_weight "
    "tensor_pool_fn add_summaries",
    "gan_train": "!train_ops logdir get_hooks_fn master is_chief scaffold hooks chief_only_hooks "
    "save_checkpoint_secs save_summaries_steps config",
}


def __getattr__(name: str) -> Any:
    """Makes a function at its first use."""
    if name not in _ARGUMENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(importlib.import_module("tensorflow_gan"), name)
    return globals().setdefault(name, respelled(function, name, _ARGUMENTS[name]))
