"""Whether engines trained the same model on the same rows, without which times mean nothing."""

STEPS = 5
# How far the first STEPS losses may be apart. A doubled gradient moves these of float32 by 2e-3
# (cnn) to 1e-1 (mlp).
RTOL = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}


def check(case, losses, dtype="float32"):
    """Checks that the first losses of all engines are equal.

    Args:
        case: The case's name, for messages.
        losses: Dict of each engine's losses, one per step, by its name.
        dtype: What the layers compute in.

    Raises:
        RuntimeError: If they are not.
    """
    first = {engine: values[:STEPS] for engine, values in losses.items()}
    check_near(case, f"the first {STEPS} steps", first, RTOL[dtype])


def check_near(case, what, values, rtol):
    """Checks that all engines have the same `values`, lists by engine.

    Raises:
        RuntimeError: If one is farther than `rtol` from the first engine's, relative to that.
    """
    reference, expected = next(iter(values.items()))
    for engine, got in values.items():
        for one, other in zip(got, expected):
            if not abs(one - other) <= rtol * abs(other):
                raise RuntimeError(
                    f"Losses of {what} must agree to {rtol}, but on `{case}` `{reference}` has "
                    f"{other} and `{engine}` {one}. Find which is wrong before comparing times."
                )
