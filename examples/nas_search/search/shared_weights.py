"""Evaluates networks with the weights that a search has trained for all of them.

The graph is built once, for any network: the choices of a network are fed as indices, from which
the masks are made that in a search the controller draws. In each run of the session every tower
evaluates one network. So the networks are a feature, int32 [towers, C], whose rows the towers
share, one for each; images and labels are features that every tower gets as a whole. If the number
of networks is not a multiple of the towers, the last one is evaluated again in place of those that
are missing, and these results are dropped.

Batch statistics are those of a search: a network normalizes by its batch, which has as many images
as a tower of the search takes to reward a network. The images are those of the first epoch of the
stream that the search takes them from. Images that do not fill a batch are left out; if there are
fewer images than a batch has, some are used twice. All networks see the same batches.
"""

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from examples import data as data_lib
from examples.data import tpu
from examples.data.datasets import BATCHES_AHEAD
from examples.nas_search import mobile_classifier_factory, schema
from examples.nas_search.costs import network_batch
from examples.nas_search.search import model_fn as search_model_fn
from examples.nas_search.spaces import search_spaces
from examples.runs import checkpoints, engines
from examples.runs.errors import UserError
from replicate import estimator

_MOST_KEPT = 2**28  # bytes of images that are kept in memory rather than made again
_ON_THIS_HOST = {"devices": None, "num_towers": None, "tpu": ""}


class SharedWeights:
    """Networks of a space with the weights of a checkpoint; holds a session until it is closed.

        with SharedWeights(params) as shared:
            accuracies = shared.accuracies(networks)

    Args:
        params: Settings of a search, whose `checkpoint_dir` has the checkpoint. On `devices` are
            the towers; if the search ran on a TPU, they are those that this host has by default.
        split: The part of the images to evaluate on: 'train', 'validation', 'test', or several
            joined by a plus.
        checkpoint: Path of the checkpoint. None: the latest one.
        batch_size: Images by which a network normalizes. None: as many as a tower of the search
            takes; if it ran on a TPU, as one of this host's towers would.
        devices: Names of the towers' devices. None: those of the search, see above.

    Attributes:
        global_step: Step of the checkpoint, int.
        num_towers: Networks that are evaluated at once, int.
        num_images: Images on which a network is evaluated, int.

    Raises:
        UserError: If there is no checkpoint, or it cannot be read, or is of another space.
        DataError: If the data are missing, or the part has no images.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        split: str = "validation",
        checkpoint: Optional[str] = None,
        batch_size: Optional[int] = None,
        devices: Optional[Sequence[str]] = None,
    ):
        params = _on_towers(params)
        checkpoint = checkpoints.find(params["checkpoint_dir"], checkpoint)
        self._space = search_spaces.get_search_space_spec(params["ssd"])
        self._data = data_lib.open_data(params)
        rows = batch_size or _rows_of_a_tower(params)
        # From here on, the towers are those that evaluate.
        params["devices"] = list(devices or params["devices"])
        self._num_batches = max(1, self._data.size(split) // rows)
        self.num_images = self._num_batches * rows
        self.num_towers = len(params["devices"])
        self.global_step = checkpoints.step_of(checkpoint)
        self._graph = tf.Graph()
        with self._graph.as_default():
            batches = tf.data.make_initializable_iterator(self._batches(split, rows))
            images, labels = batches.get_next()
            self._networks = tf.placeholder(
                tf.int32, [self.num_towers, len(network_batch.option_counts(self._space))]
            )
            features = {"network": self._networks, "images": images, "labels": labels}
            self._accuracy = _replicated(params, features).predictions["accuracy"]
            config = replicate.session_config(params["devices"], graph_options=tf.GraphOptions())
            self._session = tf.Session(config=config)
            self._session.run(batches.initializer)
            _restore(self._session, checkpoint)

    def __enter__(self) -> "SharedWeights":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def accuracies(self, networks: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns how accurate networks are.

        Args:
            networks: Int [n, C], the option of each choice of the space in visiting order; n may
                be 0.

        Returns:
            Float64 [n], in [0, 1].

        Raises:
            UserError: If a network does not fit the space.
            DataError: If an image cannot be decoded.
        """
        return np.concatenate([np.zeros(0), *self.in_turn(networks)])

    def in_turn(self, networks: Sequence[Sequence[int]]) -> Iterator[np.ndarray]:
        """Yields what `accuracies` returns, float64 [towers] of one network after another.

        The last array is shorter if the towers do not divide the number of networks. Errors are as
        of `accuracies`, those of networks before the first one is evaluated.
        """
        check_networks(self._space, networks)
        for start in range(0, len(networks), self.num_towers):
            yield self._evaluate(list(networks[start : start + self.num_towers]))

    def _evaluate(self, networks: List[Sequence[int]]) -> np.ndarray:
        """Evaluates one network for each tower, or fewer."""
        missing = self.num_towers - len(networks)
        feed = {self._networks: networks + missing * networks[-1:]}
        with data_lib.naming_broken_images(self._data):
            batches = [self._session.run(self._accuracy, feed) for _ in range(self._num_batches)]
        return np.mean(batches, axis=0, dtype=np.float64)[: len(networks)]

    def _batches(self, split: str, rows: int) -> Any:
        """Returns an endless dataset of images and labels, in the same batches again and again."""
        batches = self._data.training_batches(split, rows, 0).take(self._num_batches)
        if self.num_images * np.prod(self._data.image_shape) * 4 <= _MOST_KEPT:
            batches = batches.cache()
        return batches.repeat().prefetch(BATCHES_AHEAD)


def check_networks(space: Any, networks: Sequence[Sequence[int]]) -> None:
    """Raises a UserError if networks, int [n, C], do not fit a space."""
    for network in networks:
        try:
            network_batch.choose(space, [network])
        except ValueError as error:
            shown = ":".join(map(str, network))
            raise UserError(
                f"Networks must fit the space of the search, but {shown} does not: {error}"
            ) from error


def model_fn(
    features: Dict[str, tf.Tensor], labels: None, mode: str, params: Mapping[str, Any]
) -> Any:
    """Builds the evaluation of a network on a batch; to be replicated or not.

    Args:
        features: Dict of `network`, int32 [1, C], the option of each choice; `images`, float32
            [rows, height, width, channels]; and `labels`, float32 [rows, classes], one-hot.
        labels: None.
        mode: `tf.estimator.ModeKeys.EVAL`.
        params: Dict of the settings of a search.

    Returns:
        An `EstimatorSpec` that predicts `accuracy`, float32 [1]; of all towers it is [towers]. The
        loss is the share of images that are classified wrongly.
    """
    images = tpu.network_input(features["images"], params)
    space = mobile_classifier_factory.get_model_spec(params["ssd"])
    network = with_indices(space, features["network"][0])
    # Names and weights are those of the search: penalties of weights are the only difference.
    model = mobile_classifier_factory.get_model_for_search(
        network,
        num_classes=params["num_classes"],
        slice_widths=params.get("slice_widths", True),
    )
    with tf.variable_scope("model"):
        model.build(images.shape)
        logits, _ = model.apply(images, training=False)
    accuracy = search_model_fn.accuracy_of(features["labels"], logits)
    return estimator.EstimatorSpec(
        mode, predictions={"accuracy": accuracy[None]}, loss=1.0 - accuracy
    )


def with_indices(space: Any, indices: tf.Tensor) -> Any:
    """Returns a space in which every choice has a one-hot mask, as if it had been drawn.

    Args:
        space: A space with C choices.
        indices: Int32 [C], the option of each choice, in visiting order.
    """
    queue = iter(tf.unstack(indices, len(network_batch.option_counts(space))))

    def choose(oneof: schema.OneOf) -> schema.OneOf:
        mask = tf.one_hot(next(queue), len(oneof.choices))
        return schema.OneOf(oneof.choices, oneof.tag, mask)

    return schema.map_oneofs(choose, space)


def _on_towers(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the settings of a search such that they name devices of this host."""
    if not params["use_tpu"]:
        return dict(params)
    return {**params, **engines.resolve({**params, **_ON_THIS_HOST, "engine": "towers"})}


def _rows_of_a_tower(params: Mapping[str, Any]) -> int:
    """Returns how many images a tower of a search takes to reward a network."""
    rows = round(params["train_batch_size"] * params["rl_batch_size_multiplier"])
    return rows // (params["num_towers"] or 1)


def _replicated(params: Mapping[str, Any], features: Dict[str, tf.Tensor]) -> Any:
    """Returns the `EstimatorSpec` of all towers."""
    build = replicate.replicate_model_fn(
        model_fn,
        devices=params["devices"],
        per_tower=True,
        unsplit_features=["images", "labels"],
    )
    # Not PREDICT: graphs that predict from placeholders are for a SavedModel, and have no towers.
    return build(features, None, estimator.ModeKeys.EVAL, params)


def _restore(session: tf.Session, checkpoint: str) -> None:
    """Gives the variables of the graph the values that a checkpoint has under their names."""
    try:
        tf.train.Saver(tf.global_variables()).restore(session, checkpoint)
    except (tf.errors.OpError, ValueError) as error:
        reason = str(getattr(error, "message", error)).splitlines()[0]
        raise UserError(
            f"A checkpoint must hold the weights of the search's space, but {checkpoint} does not, "
            f"or is damaged: {reason}. Name another directory."
        ) from error
