"""Passes whose pushes are gathered are the passes of the plain field."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping

from polymargin.compiled.block_descent import descend_blocks
from polymargin.compiled.block_lists import enlist
from polymargin.compiled.block_variables import make_blocks
from polymargin.compiled.fields import KernelField
from polymargin.compiled.gathered_field import flush, gathered, is_worth_gathering
from polymargin.compiled.totals import empty_totals
from polymargin.problem.machines import MACHINES

PENALTY = 0.05


def make(name):
    """A machine's blocks, all variables zero, and the kernel field of its patterns."""
    X, y = make_overlapping(60, 4, 4)
    K, Q, n = ref.rbf(X, X, 0.2), int(y.max()) + 1, len(y)
    machine = MACHINES[name]
    problem = SimpleNamespace(
        machine=machine, n_prototypes=Q, diagonal=np.diag(K), cap=np.full(n, 2.0), own=y
    )
    blocks = make_blocks(problem, np.arange(n), np.zeros((n, Q)), PENALTY)
    R = Q + (0 if machine.K1 else 1)
    times = np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64)
    scores, constant = np.zeros((R, n)), np.zeros(R)
    field = KernelField(K, np.arange(n), scores, n, *times, constant, np.sqrt(PENALTY))
    return blocks, field


def gradient(blocks, field):
    scores = field.F.T + field.constant * field.scale
    if not blocks.relative:
        Q = blocks.V.shape[1]
        scores = scores[:, :Q] - scores[:, Q:] / Q
        shift = np.where(np.arange(Q) == blocks.own[:, None], 0.0, blocks.rival_target)
        smooth = blocks.V - blocks.V.sum(axis=1, keepdims=True) / Q
        return scores + shift + blocks.ridge[:, None] * smooth
    own = scores[np.arange(len(scores)), blocks.own][:, None]
    return scores - own + blocks.rival_target


def passes(name, notes, budget=1 << 60):
    """Variables, scores and constants after ten passes; no notes: the plain field."""
    blocks, plain = make(name)
    field = gathered(plain, notes) if notes else plain
    queue = np.empty(len(blocks.V), dtype=np.int64)
    random = np.random.default_rng(3)
    for _ in range(10):
        end = enlist(gradient(blocks, plain), blocks, queue)
        random.shuffle(queue[:end])
        totals = empty_totals()
        begin = 0
        while begin < end:
            begin, end = descend_blocks(
                field, blocks, queue, begin, end, 1e-6, 1.3, 4.0, budget, totals
            )
        if notes:
            flush(field)
    return blocks.V, plain.F, plain.constant


@pytest.mark.parametrize("notes", [4, 64])
@pytest.mark.parametrize("name", ["ww", "llw", "msvm2"])
def test_passes_end_at_the_same_point(name, notes):
    for found, expected in zip(passes(name, notes), passes(name, 0), strict=True):
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("name", ["ww", "llw", "msvm2"])
def test_bits_do_not_depend_on_where_a_pass_pauses(name):
    for found, expected in zip(passes(name, 8, budget=7), passes(name, 8), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_only_large_scores_of_absolute_margins_are_worth_it():
    _, field = make("llw")
    large = field._replace(F=np.zeros((27, 10_000), dtype=np.float32))
    assert not is_worth_gathering(field, relative=False)
    assert is_worth_gathering(large, relative=False)
    assert not is_worth_gathering(large, relative=True)
