"""Figures of distributions of `tf.contrib`, as TensorFlow 1.15.5 gave them.

    .venv-1.15/bin/python tests/migration/distribution_figures.py

writes `distribution_figures.json` again. A row has a name and arguments; it is asked for everything
that numbers and words can describe.
"""

import importlib
import pathlib

import numpy as np
import tensorflow.compat.v1 as tf

import contrib_proofs
import recorded_figures

FILE = pathlib.Path(__file__).with_suffix(".json")
# Questions: attributes, methods, and methods of points.
PROPERTIES = (
    "batch_shape event_shape dtype concentration concentration0 concentration1 df high loc logits "
    "low probs rate reparameterization_type scale skewness tailweight temperature total_count "
    "total_concentration num_steps covariance_matrix atol rtol"
)
ALONE = (
    "mean variance stddev mode entropy covariance batch_shape_tensor event_shape_tensor "
    "is_scalar_batch is_scalar_event range"
)
AT_POINTS = "prob log_prob cdf log_cdf survival_function log_survival_function"
CHANCES = [[0.2], [0.7]]
POINTS = [[0.3], [0.8], [2.5]]
SHARES = [[0.3, 0.6], [0.5, 0.1], [0.8, 0.9]]
COUNTS = [[0.0], [1.0], [3.0]]
SPLITS = [[1.0, 2.0, 1.0], [0.0, 0.0, 4.0]]
ONE_OF = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
MATRIX = [[2.0, 0.5], [0.5, 1.0]]
LINES = [[0.3, 0.8], [-1.0, 2.0]]


class Row:
    """A distribution: its name, arguments, those of another that it is compared with, and points.

    The arguments of the other are given if they differ; `wrong` holds what `validate_args`
    refuses.
    """

    def __init__(self, name, arguments, other, points, wrong=None):
        self.name, self.arguments, self.other = name, arguments, {**arguments, **other}
        self.points, self.wrong = points, wrong


def contrib(name):
    """Returns what `tf.contrib.distributions` has by a name."""
    return getattr(importlib.import_module("tensorflow.contrib").distributions, name)


def _double(value):
    is_number = isinstance(value, (float, list))
    return np.asarray(value, np.float64) if is_number else value


def _chain(sample):
    """Returns the distribution of the next sample, given one: for `Autoregressive`."""
    return contrib("Dirichlet")(0.5 + sample)


LOC_SCALE = {"loc": [1.0, -0.5], "scale": [0.7, 2.0]}
NARROW = {"scale": [-1.0, 1.0]}
TWO = {"concentration1": [2.0, 0.5], "concentration0": [3.0, 1.5]}
RAW = {"concentration1": [-1.0, 0.5], "concentration0": [3.0, 1.5]}
LOGITS = [[0.1, -0.4, 1.0]]
PROBS = [[0.2, 0.5, 0.3]]
# By the name of a row; a name of `tf.contrib` may have several rows.
ROWS = {
    "Autoregressive": Row(
        "Autoregressive",
        {"distribution_fn": _chain, "sample0": [0.1, 0.2, 0.7], "num_steps": 3},
        {},
        PROBS,
    ),
    "Bernoulli": Row("Bernoulli", {"logits": [0.3, -1.0]}, {"logits": [0.1, 2.0]}, COUNTS[:2]),
    "Bernoulli of probs": Row(
        "Bernoulli", {"probs": [0.3, 0.9]}, {}, COUNTS[:2], {"probs": [1.5, 0.1]}
    ),
    "Beta": Row("Beta", TWO, {"concentration1": [1.0, 1.0]}, SHARES, RAW),
    "BetaWithSoftplusConcentration": Row("BetaWithSoftplusConcentration", RAW, {}, SHARES),
    "Binomial": Row(
        "Binomial",
        {"total_count": [4.0, 5.0], "logits": [0.3, -1.0]},
        {"logits": [0.1, 2.0]},
        COUNTS,
        {"total_count": [-1.0, 2.0]},
    ),
    "Binomial of probs": Row(
        "Binomial", {"total_count": [4.0, 5.0], "probs": [0.3, 0.9]}, {}, COUNTS
    ),
    "Categorical": Row("Categorical", {"logits": LOGITS}, {"logits": PROBS}, [[0], [2]]),
    "Categorical of probs": Row("Categorical", {"probs": PROBS}, {}, [[0], [2]]),
    "Cauchy": Row("Cauchy", LOC_SCALE, {"scale": [1.0, 1.0]}, POINTS, NARROW),
    "Chi2": Row("Chi2", {"df": [3.0, 1.5]}, {"df": [2.0, 4.0]}, POINTS, {"df": [-1.0, 1.0]}),
    "Deterministic": Row("Deterministic", {"loc": [0.3, 0.8]}, {"loc": [0.3, 0.1]}, [[0.3], [0.8]]),
    "Deterministic with slack": Row(
        "Deterministic",
        {"loc": [0.3, 0.8], "atol": 0.1, "rtol": 0.01},
        {"loc": [0.3, 0.1]},
        [[0.35], [0.8]],
        {"atol": -1.0},
    ),
    "Dirichlet": Row(
        "Dirichlet",
        {"concentration": [[2.0, 0.5, 1.0]]},
        {"concentration": [[1.0, 1.0, 3.0]]},
        PROBS,
        {"concentration": [[-1.0, 1.0, 1.0]]},
    ),
    "DirichletMultinomial": Row(
        "DirichletMultinomial",
        {"total_count": [4.0], "concentration": [[2.0, 0.5, 1.0]]},
        {},
        SPLITS,
    ),
    "Exponential": Row("Exponential", {"rate": [0.5, 2.0]}, {"rate": [1.0, 3.0]}, POINTS),
    "ExponentialWithSoftplusRate": Row(
        "ExponentialWithSoftplusRate", {"rate": [-0.5, 2.0]}, {}, POINTS
    ),
    "Gamma": Row(
        "Gamma",
        {"concentration": [2.0, 0.5], "rate": [0.5, 2.0]},
        {"rate": [1.0, 3.0]},
        POINTS,
        {"rate": [-1.0, 1.0]},
    ),
    "GammaWithSoftplusConcentrationRate": Row(
        "GammaWithSoftplusConcentrationRate",
        {"concentration": [-2.0, 0.5], "rate": [0.5, -2.0]},
        {},
        POINTS,
    ),
    "HalfNormal": Row(
        "HalfNormal", {"scale": [0.7, 2.0]}, {"scale": [1.0, 3.0]}, POINTS, {"scale": [-1.0, 1.0]}
    ),
    "Kumaraswamy": Row("Kumaraswamy", TWO, {"concentration1": [1.0, 1.0]}, SHARES, RAW),
    "Laplace": Row("Laplace", LOC_SCALE, {"scale": [1.0, 1.0]}, POINTS, NARROW),
    "LaplaceWithSoftplusScale": Row(
        "LaplaceWithSoftplusScale", {"loc": [1.0, -0.5], "scale": [-0.7, 2.0]}, {}, POINTS
    ),
    "Logistic": Row("Logistic", LOC_SCALE, {"scale": [1.0, 1.0]}, POINTS, NARROW),
    "Multinomial": Row(
        "Multinomial", {"total_count": [4.0], "logits": LOGITS}, {"logits": PROBS}, SPLITS
    ),
    "MultivariateNormalFullCovariance": Row(
        "MultivariateNormalFullCovariance",
        {"loc": [1.0, -0.5], "covariance_matrix": MATRIX},
        {"loc": [0.0, 0.5]},
        LINES,
        {"covariance_matrix": [[1.0, 0.5], [0.0, 1.0]]},
    ),
    "MultivariateNormalFullCovariance of one argument": Row(
        "MultivariateNormalFullCovariance", {"covariance_matrix": MATRIX}, {}, LINES
    ),
    "Normal": Row("Normal", LOC_SCALE, {"scale": [1.0, 1.0]}, POINTS, NARROW),
    "NormalWithSoftplusScale": Row(
        "NormalWithSoftplusScale", {"loc": [1.0, -0.5], "scale": [-0.7, 2.0]}, {}, POINTS
    ),
    "OneHotCategorical": Row("OneHotCategorical", {"logits": LOGITS}, {"logits": PROBS}, ONE_OF),
    "OneHotCategorical of probs": Row("OneHotCategorical", {"probs": PROBS}, {}, ONE_OF),
    "PoissonLogNormalQuadratureCompound": Row(
        "PoissonLogNormalQuadratureCompound",
        {"loc": [0.1, -0.5], "scale": [0.7, 1.0]},
        {},
        COUNTS,
    ),
    "RelaxedBernoulli": Row(
        "RelaxedBernoulli", {"temperature": [0.5, 1.5], "logits": [0.3, -1.0]}, {}, SHARES
    ),
    "RelaxedBernoulli of probs": Row(
        "RelaxedBernoulli", {"temperature": [0.5, 1.5], "probs": [0.3, 0.9]}, {}, SHARES
    ),
    "SinhArcsinh": Row(
        "SinhArcsinh",
        {**LOC_SCALE, "skewness": [0.2, -0.1], "tailweight": [1.2, 0.8]},
        {},
        POINTS,
    ),
    "SinhArcsinh of two arguments": Row("SinhArcsinh", LOC_SCALE, {}, POINTS),
    "StudentT": Row("StudentT", {"df": [3.0, 1.5], **LOC_SCALE}, {}, POINTS, NARROW),
    "StudentTWithAbsDfSoftplusScale": Row(
        "StudentTWithAbsDfSoftplusScale",
        {"df": [-3.0, 1.5], "loc": [1.0, -0.5], "scale": [-0.7, 2.0]},
        {},
        POINTS,
    ),
    "Uniform": Row(
        "Uniform", {"low": [0.0, -1.0], "high": [2.0, 3.0]}, {"high": [3.0, 4.0]}, POINTS
    ),
    "VectorDeterministic": Row(
        "VectorDeterministic",
        {"loc": [0.3, 0.8]},
        {"loc": [0.3, 0.1]},
        [[0.3, 0.8], [0.3, 0.7]],
    ),
}


# Arguments of functions, and of the other classes of `tf.contrib.distributions`.
CALLS = {
    "fill_triangular": lambda fill: fill(np.arange(6.0)),
    "fill_triangular_inverse": lambda inverse: inverse(np.arange(9.0).reshape(3, 3)),
    "matrix_diag_transform": lambda change: change(np.array(MATRIX), tf.nn.softplus),
    "normal_conjugates_known_scale_posterior": lambda find: find(
        contrib("Normal")(0.0, 2.0), *map(tf.constant, [1.0, 3.0, 4.0])
    ).mean(),
    "normal_conjugates_known_scale_predictive": lambda find: find(
        contrib("Normal")(0.0, 2.0), *map(tf.constant, [1.0, 3.0, 4.0])
    ).mean(),
    "quadrature_scheme_lognormal_gauss_hermite": lambda grid: grid(
        tf.constant(0.3), tf.constant(0.8), 4
    ),
    "quadrature_scheme_lognormal_quantiles": lambda grid: grid(
        tf.constant(0.3), tf.constant(0.8), 4
    ),
    "reduce_weighted_logsumexp": lambda total: total(np.array(LINES), np.array(MATRIX), 0),
    "SinhArcsinh of a Normal": lambda cls: cls(
        0.0, 1.0, distribution=contrib("Normal")(0.0, 2.0)
    ).prob(0.5),
    "softplus_inverse": lambda inverse: inverse(np.array([0.1, 1.0, 40.0])),
    "tridiag": lambda make: make(np.arange(2.0), np.arange(3.0), np.arange(4.0, 6.0)),
}


def called(call, find):
    """Returns what a call answers.

    Args:
        call: One of `CALLS`.
        find: A function that returns what is to be asked, by its name.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        function = find(call.partition(" of ")[0])
        return {
            "value": _answer(lambda: CALLS[call](function), session),
            "signature": contrib_proofs.signature(function)[0],
        }


def figures(row, find):
    """Returns what a row answers, by what it was asked for; what it cannot answer is left out.

    Args:
        row: A `Row`.
        find: A function that returns what is to be asked, by its name.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        cls = find(row.name)
        given = {name: _double(value) for name, value in row.arguments.items()}
        given = {n: tf.constant(v) if _is_array(v) else v for n, v in given.items()}
        made = cls(**given)
        other = cls(**{name: _double(value) for name, value in row.other.items()})
        points = np.array(row.points, np.float64 if made.dtype.is_floating else np.int32)
        questions = {
            "signature": lambda: contrib_proofs.signature(cls)[0],
            "public names": lambda: sorted(n for n in dir(cls) if n[0] != "_"),
            **{name: lambda name=name: getattr(made, name) for name in PROPERTIES.split()},
            **{name: lambda name=name: getattr(made, name)() for name in ALONE.split()},
            **{name: lambda name=name: getattr(made, name)(points) for name in AT_POINTS.split()},
            "is a Distribution": lambda: isinstance(made, contrib("Distribution")),
            "has either type": lambda: [
                made.reparameterization_type == contrib(f"{kind}_REPARAMETERIZED")
                for kind in ("FULLY", "NOT")
            ],
            "quantile": lambda: made.quantile(np.array(CHANCES)),
            "kl": lambda: contrib("kl_divergence")(made, other),
            "kl by a method": lambda: made.kl_divergence(other),
            "cross entropy": lambda: made.cross_entropy(other),
            "gradients": lambda: _gradients(made.log_prob(points), given),
            "sample": lambda: _form(made.sample(2, seed=1)),
            "dtype of plain arguments": lambda: cls(**row.arguments).dtype,
            "copy": lambda: made.copy(name="again").log_prob(points),
            "wrong arguments": lambda: _is_refused(cls, row, points, session),
        }
        found = {question: _answer(ask, session) for question, ask in questions.items()}
    return {question: answer for question, answer in found.items() if answer is not None}


def _is_array(value):
    return isinstance(value, np.ndarray)


def _gradients(log_prob, given):
    tensors = [given[name] for name in sorted(given) if isinstance(given[name], tf.Tensor)]
    return [0.0 if one is None else one for one in tf.gradients(log_prob, tensors)]


def _form(samples):
    return [samples.dtype.name, str(samples.shape)]


def _is_refused(cls, row, points, session):
    if row.wrong is None:
        return None
    given = {name: _double(value) for name, value in {**row.arguments, **row.wrong}.items()}
    try:
        session.run(cls(validate_args=True, **given).log_prob(points))
    except (ValueError, tf.errors.InvalidArgumentError):
        return "refused"
    return "taken"


def _answer(ask, session):
    try:
        made = ask()
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return None
    if type(made).__name__ in ("DType", "TensorShape"):
        return str(made)
    if type(made).__name__ == "ReparameterizationType":
        return str(made).split()[-1].strip(">")
    if isinstance(made, tf.linalg.LinearOperator):
        made = made.to_dense()
    if callable(made):
        return None
    if isinstance(made, (list, tuple)):
        return [_answer(lambda one=one: one, session) for one in made]
    if isinstance(made, tf.Tensor):
        made = session.run(made)
    if isinstance(made, (np.ndarray, np.generic)):
        return _short(made.tolist())
    return made


def _short(value):
    """Returns numbers of 10 digits."""
    if isinstance(value, list):
        return [_short(one) for one in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def recorded():
    """Returns what TensorFlow 1.15.5 answered."""
    return recorded_figures.read(FILE)


def _main():
    found = {name: figures(row, contrib) for name, row in ROWS.items()}
    found.update({name: called(name, contrib) for name in CALLS})
    recorded_figures.write(FILE, found)


if __name__ == "__main__":
    if not tf.__version__.startswith("1."):
        raise SystemExit("TensorFlow 1.15 has the real ones: run it with that.")
    _main()
