"""Compares the moved program over towers with one device, from the checkpoint that is given.

python launch.py prove.py CHECKPOINT
"""

import sys

import caption
import tensorflow as tf

import replicate

if __name__ == "__main__":
    made = replicate.compare(
        caption.model_fn,
        caption.input_fn,
        params=caption.HPARAMS,
        loss_reduction=tf.losses.Reduction.SUM,
        checkpoint_path=sys.argv[1],
    )
    assert made.equal
