"""A row of the table of models, and the marks by which tests select rows."""

from typing import Callable, NamedTuple, Optional, Tuple

from contract.harness import UNEVEN, Batches

# "penalty", "change", "recipe", "state" and "mixed" are trained with optimizers wrapped and as they
# are. Those after "program" are marks of programs.
MARKS = {
    "way": "a way to make variables, losses or gradients: trained with every optimizer, number of "
    "towers, kind of batches, reduction and placement; and in replicas of tf.distribute",
    "penalty": "a loss to which more is added by hand",
    "change": "gradients that are changed before they are applied",
    "recipe": "code as people publish it",
    "state": "variables, tables or queues that the optimizer does not update",
    "mixed": "gradients or weights that depend on the rows once more",
    "engine": "trained by every engine, from one checkpoint",
    "dies": "its own queue runner dies of the end of the session, on one device, too",
    "thorough": "others show the same: `make test` does not train it with an Estimator",
    "program": "a complete program: an Estimator trains it on towers, evaluates, predicts and "
    "exports",
    "exported": "`make test` exports it, too",
    "unwrapped": "`make test` trains it with one line changed, too",
    "own": "trains in a way of its own, or from no checkpoint: not compared by `replicate.compare`",
    "not_in_1": "asks for what TensorFlow 1.15 does not have: `global_clipnorm` of optimizers of "
    "Keras, or `saving_listeners` of `TrainSpec`",
    "coarser_in_1": "TensorFlow 1.15 makes it look like one of float32, which may deviate more",
    "resources": "needs resource variables, which TensorFlow 1.15 does not make: optimizers of "
    "Keras have slots for them alone, and what reads other variables may read them updated",
}
COLLECTIONS = "replicas share collections, so a replica finds the penalties and losses of others"
REUSE = (
    "later replicas reuse variables, and look for float32 where only the initialiser says float64"
)


class Model(NamedTuple):
    """A row of the table.

    Attributes:
        fn: The `model_fn`. Its `params` are those of `contract.make_params`. None: see `program`.
        marks: Names of `MARKS`, with spaces between.
        batches: Batches to train on, where the test does not choose.
        rtol: Tolerance of the comparison with one device: what sums in another order may change.
        estimator: Optimizer and number of towers with which an Estimator trains, evaluates and
            predicts as well. Empty: it does not.
        not_in_replicas: Why TensorFlow itself cannot train it in replicas of tf.distribute.
        rounding: Deviation that is no more than rounding, such as a bias before a batch norm, whose
            gradient is 0: it depends on how many threads share a sum.
        own_networks: Whether every tower computes something else, so that N towers are comparable
            with what has N replicas only.
        tpu_sums: How many cross-replica sums its graph for TPUs has.
        program: Name of the module of a complete program, whose `PROGRAM` says all but its marks.
            Tests import it where they train it.
    """

    fn: Optional[Callable]
    marks: str
    batches: Batches = UNEVEN
    rtol: float = 1e-9
    estimator: Tuple = ()
    not_in_replicas: Optional[str] = None
    rounding: float = 0.0
    own_networks: bool = False
    tpu_sums: Optional[int] = None
    program: Optional[str] = None
