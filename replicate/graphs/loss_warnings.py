"""What is said of losses of which the graph does not tell how they add up over towers."""

import tensorflow.compat.v1 as tf

from replicate.graphs.functions import line_of

DIVISION = (
    "replicate: a loss is divided (%s, %s) by what nothing tells of how it adds up over "
    "towers. It is taken for what `loss_reduction` says: by default, for a mean over the "
    "tower's own rows. If it is a sum divided by a number for the whole batch, pass "
    "`loss_reduction=tf.losses.Reduction.SUM`; if the divisor is a count of the tower's, "
    "divide by `replicate.cross_tower_sum` of it besides."
)
SUM = (
    "replicate: a loss is a sum (%s, %s) of numbers of which nothing tells whether each is a "
    "row's. It is taken for what `loss_reduction` says: by default, for the mean over the "
    "tower's own rows. If it is a sum over rows, or such a sum divided by a number for the "
    "whole batch, pass `loss_reduction=tf.losses.Reduction.SUM`."
)
SUM_IN = (
    "replicate: a loss is made of a sum over rows by an operation (%s, %s) with something of which "
    "nothing tells what it is of all rows. It is taken for what `loss_reduction` says: by default, "
    "for the mean over the tower's own rows. If it adds up, pass "
    "`loss_reduction=tf.losses.Reduction.SUM`."
)
SUM_AND_TOTAL = (
    "replicate: a loss (%s, %s) is a sum over the tower's rows, and is computed with what the "
    "model has of all towers, as a `cross_tower_sum`. It is taken for what `loss_reduction` "
    "says: by default, for a mean over the tower's own rows. If losses add up, as of a sum "
    "divided by a `cross_tower_sum`, pass `loss_reduction=tf.losses.Reduction.SUM`, or write "
    "the sum of the tower's rows in place of that of all."
)
SUM_AND_MEAN = (
    "replicate: a loss (%s, %s) is a sum over the tower's rows, and is computed with a "
    "`cross_tower_mean`. By `loss_reduction=tf.losses.Reduction.SUM`, losses of towers add up: "
    "if it is divided by that mean, divide by a `cross_tower_sum`."
)
INNER_SUM = (
    "replicate: a loss is added up in a condition, loop or function (%s, %s), where nothing "
    "tells of what. It is taken for what `loss_reduction` says: by default, for the mean over "
    "the tower's own rows. If it is a sum over rows, or such a sum divided by a number for the "
    "whole batch, pass `loss_reduction=tf.losses.Reduction.SUM`, or add up outside."
)
CHOSEN_ROWS = (
    "replicate: a loss is a mean over rows that the model chooses (%s, %s). Each tower takes "
    "that of its own, which is no number if it chooses none, and counts by all its rows. "
    "Multiply by the mask and divide sums instead: `tf.reduce_sum(losses * mask) / "
    "tf.reduce_sum(mask)` is that of one device."
)
OTHER_ROWS = (
    "replicate: in a loss, what is computed of a row depends on other rows of the tower (%s, %s), "
    "as by a mean over rows, the similarity of two of them, or batch norm. On one device these are "
    "the rows of the whole batch. Take `replicate.cross_tower_mean` or `cross_tower_sum` of what "
    "rows have in common, and `replicate.batch_normalization`, or keep together on one device what "
    "is compared."
)
ONE_VALUE = (
    "replicate: a loss is taken from a tower's rows neither as a mean nor as a sum (%s, %s), but "
    "as their largest or smallest, their product, or one of them. Towers' losses are averaged, "
    "which is not that of one device. Let `replicate.merge_call` or `cross_tower_sum` make of it "
    "what it is of all rows, or take a mean or sum."
)


def warn(text, op):
    """Logs one of the texts above for an operation, with the line that made it."""
    tf.logging.warning(text, op.name, line_of(op))
