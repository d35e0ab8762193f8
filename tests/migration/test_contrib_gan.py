"""tensorflow-gan in the place of `tf.contrib.gan`: the numbers and names that TensorFlow 1.14 had.

It is the last that has `tf.contrib.gan`; `gan_figures.json` has what it computed. Without
tensorflow-gan, only the table is looked at.
"""

import inspect
import json
import re

import numpy as np
import pytest

import gan_figures
import versions
from replicate.compat import slim
from replicate.migration import contrib
from replicate.migration.contrib import modules, table

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(versions.IS_1, reason="TensorFlow 1.15 has no tf.contrib.gan"),
]
RECORDED = gan_figures.recorded()


@pytest.fixture
def package():
    return pytest.importorskip("tensorflow_gan", reason="tensorflow-gan is not installed")


def check(got, want, where):
    """Asserts that figures are the same, within what float32 allows, and all else exactly."""
    if isinstance(want, list):
        assert len(got) == len(want), where
        for number, (one, other) in enumerate(zip(got, want)):
            check(one, other, f"{where}[{number}]")
    elif isinstance(want, float):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6, err_msg=where)
    else:
        assert got == want, where


@pytest.mark.parametrize("row", gan_figures.ROWS)
def test_gans_have_the_numbers_and_names_of_1_14(package, row):
    got = gan_figures.figures(row)
    assert {*got} == {*RECORDED[row]}
    for what, want in RECORDED[row].items():
        check(got[what], want, what)


def test_gans_take_the_arguments_of_1_14(package):
    assert gan_figures.signatures() == RECORDED["signatures"]


def test_all_that_is_given_has_a_signature():
    given = [
        row.name.partition(".")[2]
        for row in table._rows("gan").values()
        if row.kind != "none" and row.name != "gan"
    ]
    assert sorted(given) == gan_figures.NAMES == sorted(RECORDED["signatures"])
    assert {*RECORDED} == {*gan_figures.ROWS, "signatures"}


NOT_THE_SAME = {
    "estimator.GANEstimator": "which takes `params` before `warm_start_from`.",
    "eval.frechet_inception_distance": "some of whose arguments differ.",
    "features.condition_tensor": "whose variables have other names.",
    "features.spectral_normalize": "some of whose arguments differ.",
}


@pytest.mark.parametrize("name", NOT_THE_SAME)
def test_what_differs_is_an_error(package, name):
    with pytest.raises(AttributeError, match=re.escape(NOT_THE_SAME[name])):
        modules.lookup(f"gan.{name}")


def test_an_own_name_says_which_package_it_calls(monkeypatch):
    monkeypatch.setattr(modules, "_is_installed", lambda module: module != "tensorflow_gan")
    message = (
        "tf.contrib.gan.gan_loss is replicate.migration.contrib.gan.gan_loss now, of the package "
        "tensorflow-gan, which is not installed. Run: pip install "
    )
    with pytest.raises(AttributeError, match=re.escape(message)):
        modules.lookup("gan.gan_loss")
    assert contrib.find("gan.gan_loss").package == "tensorflow-gan"


def test_functions_without_getargspec_are_asked_otherwise():
    def function(a, *b, c=3, **d):
        pass

    def plain(a, b=2):
        pass

    assert slim._getargspec(plain) == (["a", "b"], None, None, (2,))
    assert slim._getargspec(function)[:3] == (["a"], "b", "d")
    assert slim._missing(json) == {}
    assert bool(slim._missing(inspect)) == (not hasattr(inspect, "getargspec"))


def test_own_names_are_asked_once(package):
    assert modules.lookup("gan.gan_loss") is modules.lookup("gan.gan_loss")
    with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
        from replicate.migration.contrib import gan

        gan.no_such  # noqa: B018
