"""Figures of `tf.contrib.gan`, as TensorFlow 1.14 gave them, the last version that has it.

    python tests/migration/gan_figures.py

writes `gan_figures.json` again, with TensorFlow 1.14 in an environment of one's own: 1.15 has no
`tf.contrib.gan`. A row makes a graph of it, and tells what it computes, its variables, losses and
summaries. Variables are resources: with references, what joint training reads is left to chance.
"""

import importlib
import pathlib
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

import contrib_proofs
import recorded_figures

FILE = pathlib.Path(__file__).with_suffix(".json")
NOISE = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
REAL = np.linspace(0.5, -2.0, 8, dtype=np.float32).reshape(4, 2)
IMAGES = np.linspace(-1.0, 1.0, 4 * 8 * 8 * 3, dtype=np.float32).reshape(4, 8, 8, 3)
LABELS = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
SCORES = np.array([[0.3], [-1.0], [2.0], [0.1]], np.float32)
OTHERS = np.array([[1.3], [0.4], [-0.2], [-3.0]], np.float32)
WEIGHTS = np.array([[1.0], [0.5], [2.0], [0.0]], np.float32)


def gan():
    """Returns `tf.contrib.gan`."""
    return importlib.import_module("tensorflow.contrib.gan")


def _dense(values, units, name):
    start = tf.constant_initializer(np.linspace(-0.4, 0.9, int(values.shape[-1]) * units))
    return tf.layers.dense(values, units, kernel_initializer=start, name=name)


def _generator(noise):
    return _dense(noise, 2, "made")


def _discriminator(data, _):
    return tf.square(_dense(data, 1, "judged")) - 0.1


def _model(**options):
    return gan().gan_model(
        _generator, _discriminator, tf.constant(REAL), tf.constant(NOISE), **options
    )


def _parts(model):
    """Returns what a model has: values, and of scopes and variables the names."""
    found = []
    for value in model:
        if isinstance(value, tf.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            kept = [one for one in value if isinstance(one, tf.Tensor) or _is_variable(one)]
            found.append([one.name if _is_variable(one) else one for one in kept])
        elif isinstance(value, tf.VariableScope):
            found.append(value.name)
        elif hasattr(value, "_fields"):
            found.append(_parts(value))
    return found


def _is_variable(value):
    return hasattr(value, "initializer")


def _acgan():
    def judged(data, _):
        return _discriminator(data, _), _dense(data, 3, "classes")

    return gan().acgan_model(
        _generator, judged, tf.constant(REAL), tf.constant(NOISE), tf.constant(LABELS)
    )


def _infogan():
    def judged(data, _):
        code = tf.distributions.Normal(_dense(data, 1, "code"), 1.0)
        return _discriminator(data, _), [code]

    def made(inputs):
        return _generator(tf.concat(inputs, 1))

    noise = tf.constant(NOISE)
    return gan().infogan_model(made, judged, tf.constant(REAL), [noise[:, :2]], [noise[:, 2:]])


def _cyclegan():
    def across(data):
        return _dense(data, 2, "across")

    return gan().cyclegan_model(
        across, _discriminator, tf.constant(REAL), tf.constant(0.5 - REAL[::-1])
    )


def _stargan():
    def made(data, label):
        return data * _dense(tf.cast(label, data.dtype), 1, "made")[:, :, None, None]

    def judged(data, domains):
        flat = tf.reshape(data, [4, 192])
        return _dense(flat, 1, "judged"), _dense(flat, domains, "domains")

    return gan().stargan_model(
        made, judged, tf.constant(IMAGES), tf.constant(np.ones([4, 1], np.float32))
    )


def _loss(model, add_summaries=True, **options):
    return gan().gan_loss(model, add_summaries=add_summaries, **options)


def _trained(hooks):
    """Trains two steps; returns the variables, and the step."""
    model = _model()
    ops = gan().gan_train_ops(
        model,
        _loss(model),
        tf.train.GradientDescentOptimizer(0.1),
        tf.train.MomentumOptimizer(0.05, 0.9),
    )
    folder = tempfile.mkdtemp()
    step = gan().gan_train(
        ops, folder, hooks(), hooks=[tf.train.StopAtStepHook(4)], save_summaries_steps=None
    )
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder))
    names = sorted(reader.get_variable_to_shape_map())
    return [_plain(step), names, [reader.get_tensor(name).tolist() for name in names]]


def _stepped():
    model = _model()
    sgd = tf.train.GradientDescentOptimizer(0.1)
    ops = gan().gan_train_ops(model, _loss(model), sgd, sgd)
    step = tf.train.get_or_create_global_step()
    train = gan().get_sequential_train_steps(gan().GANTrainSteps(2, 1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [_plain(value) for value in train(session, ops, step, {})] + [
            session.run(tf.trainable_variables())
        ]


def _combined():
    model = _model()
    loss = gan().losses.combine_adversarial_loss(
        _loss(model), model, tf.reduce_mean(model.generated_data**2), gradient_ratio=0.5
    )
    return list(loss)


def _of_arguments(name, *arguments, **options):
    return lambda: getattr(gan().losses.wargs, name)(*map(tf.constant, arguments), **options)


def _of_model(name, make=None):
    return lambda: getattr(gan().losses, name)((make or _model)())


def _penalty(**options):
    """A gradient that is the same between real and generated data, wherever it is taken."""
    model = _model()
    model = model._replace(discriminator_fn=lambda data, _: _dense(data, 1, "judged"))
    return gan().losses.wasserstein_gradient_penalty(model, **options)


def _clipped():
    model = _model()
    sgd = tf.train.GradientDescentOptimizer(0.1)
    loss = tf.reduce_sum(model.discriminator_real_outputs)
    weights = tf.trainable_variables("Discriminator")
    clip = gan().features.clip_discriminator_weights(sgd, model, 0.2)
    with tf.control_dependencies([clip.minimize(loss, var_list=weights)]):
        return [weight.read_value() for weight in weights]


def _batch_norm():
    norm = gan().features.VBN(tf.constant(REAL))
    return [norm.reference_batch_normalization(), norm(tf.constant(REAL[:2]))]


def _hooked(name):
    return lambda: _trained(lambda: getattr(gan(), name)(gan().GANTrainSteps(1, 2)))


ROWS = {
    "acgan_model": lambda: _parts(_acgan()),
    "clip_discriminator_weights": _clipped,
    "combine_adversarial_loss": _combined,
    "cyclegan_loss": lambda: _parts(gan().cyclegan_loss(_cyclegan())),
    "cyclegan_model": lambda: _parts(_cyclegan()),
    "gan_loss": lambda: _parts(_loss(_model())),
    "gan_loss of a penalty": lambda: _parts(
        _loss(
            _model()._replace(discriminator_fn=lambda data, _: _dense(data, 1, "judged")),
            gradient_penalty_weight=2.0,
            gradient_penalty_one_sided=True,
        )
    ),
    "gan_loss of a kind": lambda: _parts(
        _loss(
            _model(),
            False,
            generator_loss_fn=gan().losses.modified_generator_loss,
            discriminator_loss_fn=gan().losses.modified_discriminator_loss,
        )
    ),
    "gan_loss of an acgan": lambda: _parts(
        _loss(_acgan(), aux_cond_generator_weight=0.5, aux_cond_discriminator_weight=0.7)
    ),
    "gan_loss of an infogan": lambda: _parts(
        _loss(_infogan(), mutual_information_penalty_weight=0.5)
    ),
    "gan_loss of a pool": lambda: _parts(
        _loss(_model(), tensor_pool_fn=lambda values: gan().features.tensor_pool(values, 0))
    ),
    "gan_model": lambda: _parts(_model()),
    "gan_model of scopes": lambda: _parts(_model(generator_scope="G", discriminator_scope="D")),
    "get_joint_train_hooks": _hooked("get_joint_train_hooks"),
    "get_sequential_train_hooks": _hooked("get_sequential_train_hooks"),
    "get_sequential_train_steps": _stepped,
    "image_grid": lambda: gan().eval.image_grid(tf.constant(IMAGES), (2, 2), (8, 8), 3),
    "image_reshaper": lambda: gan().eval.image_reshaper(tf.constant(IMAGES), 2),
    "infogan_model": lambda: _parts(_infogan()),
    "stargan_model": lambda: _parts(_stargan()),
    "VBN": _batch_norm,
    "wasserstein_gradient_penalty": _penalty,
    "wasserstein_gradient_penalty of a target": lambda: _penalty(target=0.3, one_sided=True),
    **{
        f"{name}_{side}_loss": _of_model(f"{name}_{side}_loss")
        for name in ("least_squares", "minimax", "modified", "wasserstein")
        for side in ("discriminator", "generator")
    },
    **{
        f"acgan_{s}_loss": _of_model(f"acgan_{s}_loss", _acgan)
        for s in ("discriminator", "generator")
    },
    "cycle_consistency_loss": _of_model("cycle_consistency_loss", _cyclegan),
    "mutual_information_penalty": _of_model("mutual_information_penalty", _infogan),
    **{
        f"{name}_discriminator_loss of arguments": _of_arguments(
            f"{name}_discriminator_loss",
            SCORES,
            OTHERS,
            real_weights=WEIGHTS,
            generated_weights=0.7,
        )
        for name in ("least_squares", "minimax", "modified", "wasserstein")
    },
    **{
        f"{name}_generator_loss of arguments": _of_arguments(
            f"{name}_generator_loss", SCORES, weights=WEIGHTS
        )
        for name in ("least_squares", "minimax", "modified", "wasserstein")
    },
}


def figures(row):
    """Returns what a row computes, and what it leaves in its graph."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        made = ROWS[row]()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = _told(made, session)
        return {
            "values": values,
            "variables": sorted(one.name for one in tf.global_variables()),
            "trainable": sorted(one.name for one in tf.trainable_variables()),
            "losses": len(graph.get_collection(tf.GraphKeys.LOSSES)),
            "updates": len(graph.get_collection(tf.GraphKeys.UPDATE_OPS)),
            "summaries": sorted(one.name for one in graph.get_collection(tf.GraphKeys.SUMMARIES)),
        }


def signatures():
    """Returns the arguments of everything that rows are about, and of what they hold."""
    found = {}
    for name in NAMES:
        value = gan()
        for part in name.split("."):
            value = getattr(value, part)
        fields = getattr(value, "_fields", None)
        found[name] = list(fields or contrib_proofs.signature(value)[0])
    return found


# The names that are given, by `tf.contrib.gan`.
NAMES = sorted(
    [
        *("acgan_model", "ACGANModel", "cyclegan_loss", "cyclegan_model", "CycleGANLoss"),
        *("CycleGANModel", "gan_loss", "gan_model", "gan_train", "gan_train_ops", "GANLoss"),
        *("GANModel", "GANTrainOps", "GANTrainSteps", "get_joint_train_hooks"),
        *("get_sequential_train_hooks", "get_sequential_train_steps", "infogan_model"),
        *("InfoGANModel", "RunTrainOpsHook", "stargan_model", "StarGANModel"),
        *("eval.image_grid", "eval.image_reshaper", "features.clip_discriminator_weights"),
        *("features.clip_variables", "features.tensor_pool"),
        *("features.VBN", "losses.combine_adversarial_loss", "losses.cycle_consistency_loss"),
        *("losses.mutual_information_penalty", "losses.wasserstein_gradient_penalty"),
        *(
            f"{place}.{kind}_{side}_loss"
            for place in ("losses", "losses.wargs")
            for kind in ("acgan", "least_squares", "minimax", "modified", "wasserstein")
            for side in ("discriminator", "generator")
        ),
    ]
)


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _told(value, session):
    if isinstance(value, (list, tuple)):
        return [_told(one, session) for one in value]
    if isinstance(value, tf.Tensor):
        value = session.run(value)
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
        return _told(value, session) if isinstance(value, list) else _told([value], session)[0]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def recorded():
    """Returns what TensorFlow 1.14 answered."""
    return recorded_figures.read(FILE)


def _main():
    tf.enable_resource_variables()
    found = {}
    for row in ROWS:
        found[row] = figures(row)
    found["signatures"] = signatures()
    recorded_figures.write(FILE, found)


if __name__ == "__main__":
    if not tf.__version__.startswith("1.14."):
        raise SystemExit("TensorFlow 1.14 has the real ones: run it with that.")
    _main()
