"""Compares the moved program over towers with one device, from the checkpoint that is given.

python launch.py prove.py CHECKPOINT
"""

import sys

import caption

import replicate

if __name__ == "__main__":
    made = replicate.compare(
        caption.model_fn,
        caption.input_fn,
        params=caption.HPARAMS,
        checkpoint_path=sys.argv[1],
    )
    assert made.equal
