"""Distributions of `tf.contrib` answer what TensorFlow 1.15.5's own did.

On 1.15, the real ones are asked, so that `distribution_figures.json` is theirs; elsewhere what has
taken their place. Of names that are errors, tensorflow-probability is asked, where it is installed:
it shows why each is one.
"""

import numpy as np
import pytest

import distribution_figures
import versions
from replicate.migration import contrib
from replicate.migration.contrib import table

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]

RECORDED = distribution_figures.recorded()
NAMES = {name: row.name for name, row in distribution_figures.ROWS.items()}
NAMES.update({name: name.partition(" of ")[0] for name in distribution_figures.CALLS})
_KL = {"kl", "kl by a method", "cross entropy"}
# Answers of all distributions of tensorflow-probability that differ from the real ones: they are no
# instances of the other names in `tf.contrib.distributions`.
OF_OTHERS = {"is a Distribution", "has either type"}
# One has the type of the distributions that it consists of.
LIKE_THE_REAL = {"Autoregressive": {"has either type"}}
# Answers of some of them that differ.
DIFFERENT = {
    "Autoregressive": {"batch_shape", "event_shape"},
    "Binomial": {"probs"},
    "Binomial of probs": {"logits"},
    "Chi2": {"concentration", "kl", "public names", "rate"},
    "Deterministic": {"reparameterization_type"},
    "Deterministic with slack": {"reparameterization_type"},
    "Kumaraswamy": {"entropy"},
    "MultivariateNormalFullCovariance": {"kl"},
    "MultivariateNormalFullCovariance of one argument": {"kl"},
    "normal_conjugates_known_scale_posterior": {"value"},
    "normal_conjugates_known_scale_predictive": {"value"},
    "OneHotCategorical": {"probs", "public names", *_KL},
    "OneHotCategorical of probs": {"logits", "public names", *_KL},
    "PoissonLogNormalQuadratureCompound": {"public names"},
    "RelaxedBernoulli": {"probs", "public names"},
    "RelaxedBernoulli of probs": {"logits", "public names"},
    "SinhArcsinh of a Normal": {"value"},
    "VectorDeterministic": {"reparameterization_type"},
}


def asked(name):
    """Returns what has the place of a name here; skips if nothing that is installed has."""
    if versions.IS_1:
        return distribution_figures.contrib(name)
    place = contrib.find(f"distributions.{name}")
    if place.kind in ("alias", "own"):
        return distribution_figures.contrib(name)
    package = pytest.importorskip(
        "tensorflow_probability", reason="tensorflow-probability is not installed"
    )
    if place.kind == "package":
        assert place.target == f"tensorflow_probability.distributions.{name}"
        return distribution_figures.contrib(name)
    return getattr(package.distributions, name)


def answers(name):
    if name in distribution_figures.CALLS:
        return distribution_figures.called(name, asked)
    return distribution_figures.figures(distribution_figures.ROWS[name], asked)


def same(question, got, want):
    if question == "public names":
        return {*got} >= {*want}
    if not isinstance(want, (bool, str)):
        try:
            np.testing.assert_allclose(
                np.asarray(got, np.float64), np.asarray(want, np.float64), 1e-8, 1e-12
            )
        except (AssertionError, TypeError, ValueError):
            return got == want
        return np.shape(got) == np.shape(want)
    return got == want


@pytest.mark.parametrize("name", NAMES)
def test_distributions_answer_as_the_real_ones(name):
    got, want = answers(name), RECORDED[name]
    different = {key for key in want if not same(key, got.get(key), want[key])}
    place = contrib.find(f"distributions.{NAMES[name]}")
    if versions.IS_1 or place.kind != "none":
        assert different == set()
    else:
        others = OF_OTHERS if name in distribution_figures.ROWS else set()
        assert different == others - LIKE_THE_REAL.get(name, set()) | DIFFERENT.get(name, set())


def test_what_differs_is_not_given():
    given = [name for name in NAMES if contrib.find(f"distributions.{NAMES[name]}").package]
    assert given == [name for name in distribution_figures.CALLS if name.startswith("quadrature")]
    for name in DIFFERENT:
        assert contrib.find(f"distributions.{NAMES[name]}").kind == "none", name


def test_every_distribution_that_is_given_has_figures():
    places = [contrib.find(f"distributions.{one}") for one in table.names_in("distributions")]
    given = {place.name.rpartition(".")[2] for place in places if place.kind != "none"}
    assert given - {*NAMES.values()} == {
        *("Distribution", "RegisterKL", "ReparameterizationType", "kl_divergence"),
        *("FULLY_REPARAMETERIZED", "NOT_REPARAMETERIZED"),
    }
    assert {*RECORDED} == {*NAMES}
    assert all(None not in answers.values() for answers in RECORDED.values())
