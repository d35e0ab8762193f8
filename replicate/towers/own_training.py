"""Models that train without gradients, known by TensorFlow's operations for them.

What these do with rows, no sum over towers replaces, and there is no optimizer to wrap.
"""

from replicate.graphs import line_of

_ALWAYS = {
    "SdcaOptimizer": (
        "stochastic dual coordinate ascent (SDCA)",
        "give the model an optimizer that goes by gradients, such as FTRL",
    ),
    "BoostedTreesUpdateEnsemble": ("boosted trees", None),
    "BoostedTreesCenterBias": ("boosted trees", None),
}
# These alone train nothing; they are named where something is trained without gradients.
_IF_TRAINED = {
    "NearestNeighbors": ("k-means clustering", None),
    "KmeansPlusPlusInitialization": ("k-means clustering", None),
    "KMC2ChainInitialization": ("k-means clustering", None),
}


def check(group, is_trained=False):
    """Checks that the model is none of those that train without gradients.

    Args:
        group: The `Towers`, the model built.
        is_trained: Whether it is known that rows of one tower update what is trained.

    Raises:
        ValueError: If it is one of them, by name.
    """
    known = {**_ALWAYS, **_IF_TRAINED} if is_trained else _ALWAYS
    for op in group.copies.new_operations():
        for prefix, (name, instead) in known.items():
            if op.type.startswith(prefix) and group.copies.rows.takes(op):
                raise ValueError(
                    "Towers train by the gradients of all of them, but this model trains by "
                    f"{name}, which makes none ({op.type} {op.name}, {line_of(op)}). Pass the "
                    "Estimator the plain `model_fn`, without `replicate_model_fn`, to train it on "
                    f"one device{'' if instead is None else ', or ' + instead}."
                )
