"""Each rule of the table is true of random operations, in all combinations of layouts.

How it is done is told in `proof.py`, which also runs by itself.
"""

from __future__ import annotations

import collections
import random

import pytest
import tensorflow.compat.v1 as tf

from layouts import allowed, proof
from layouts.cases import load
from replicate.layouts import rule

TYPES = proof.types()
PER_NIGHT = 200


def _alike():
    """Returns types whose rule and generators two others have, which are tried more often."""
    kinds, found = collections.Counter(), set()
    for name, generators in TYPES.items():
        function = rule.rule_of(name)
        kind = function, tuple(generators)
        kinds[kind] += function is not None
        if kinds[kind] > 2:
            found.add(name)
    return found


ALIKE = _alike()


@pytest.mark.parametrize("name", TYPES)
def test_a_rule_is_true_and_leaves_nothing_whole_without_a_reason(name):
    examples = proof.FEW * len(TYPES[name]) if name in ALIKE else None
    found = proof.Proof(name, TYPES[name]).run(examples)
    assert found.asked
    _check(found)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TYPES)
def test_a_rule_is_true_of_many_operations(name):
    found = proof.Proof(name, TYPES[name], seed=random.randrange(10**6)).run(PER_NIGHT)
    _check(found)
    assert not allowed.not_found(name, found.missing), "reasons of what is not missing any more"


def _check(found):
    assert not found.wrong, "\n".join(found.wrong.values())
    left = allowed.unlisted(found.name, found.missing)
    assert not left, "\n".join(f"missing: {one}\n{found.missing[one]}" for one in left)


def test_every_rule_has_cases():
    known = {name for name in rule.rules() if hasattr(tf.raw_ops, name)}
    assert sorted(known - set(load())) == []


def test_every_type_that_is_left_whole_says_why():
    for line in allowed.read():
        assert len(line.reason.split()) > 2, line
    assert all(len(reason.split()) > 2 for reason in rule.reasons().values())
