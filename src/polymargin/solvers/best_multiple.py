"""The multiple of a dual point with the least primal value, for kernel machines with boxes.

Near the optimum the margins of free variables are at their targets but for noise, and C times half
of that noise is what P exceeds D by.  A multiple slightly above 1 lifts all of them above their
targets at the price of a little norm.  Variables at their caps cannot follow: where they are many,
P does not fall and the point stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polymargin.problem.problem import Problem
from polymargin.solvers.block_scores import KernelStage

if TYPE_CHECKING:
    from polymargin.solvers.blocks import BlockDescent

__all__ = ["BestMultiple"]

_MULTIPLES = 1.0 + np.concatenate([[0.0], np.logspace(-5.0, -1.5, 15)])


class BestMultiple:
    """Shows block descent's best multiple to a check; descent goes on from the point before."""

    def __init__(self) -> None:
        self.before: tuple[np.ndarray, ...] | None = None

    @staticmethod
    def may_help(problem: Problem) -> bool:
        """Whether every violated constraint costs C times what it lacks, and scores are kept."""
        machine = problem.machine
        boxes = (machine.K3, machine.p, machine.own_target) == (0, 1, None)
        return bool(boxes and not problem.is_hard and not problem.kernel.is_linear)

    def take(self, descent: BlockDescent) -> None:
        """Go to the best multiple, clipped and balanced, if P is then lower."""
        blocks, stage, problem = descent.blocks, descent.stage, descent.problem
        assert isinstance(stage, KernelStage)
        norm2, lack, at = _shortfalls(descent)
        zero = problem.raised(np.zeros(blocks.V.shape), stage.ids)
        target = problem.machine.deficits(zero, blocks.own)[at]
        cap, margins = blocks.rival_cap[at[0]], target - lack
        values = [
            0.5 * s * s * norm2 + float(cap @ np.maximum(target - s * margins, 0.0))
            for s in _MULTIPLES
        ]
        factor = float(_MULTIPLES[int(np.argmin(values))])
        if factor == 1.0:
            return
        self.before = (blocks.V.copy(), stage.F.copy(), descent.b, stage.constant.copy())
        clipped = np.maximum(factor * blocks.V, -blocks.rival_cap[:, None])
        change = clipped - factor * blocks.V
        rows = np.flatnonzero(change.any(axis=1))
        blocks.V[:] = clipped
        blocks.total[:] = clipped.sum(axis=1)
        descent.b = factor * descent.b
        stage.F *= stage.dtype.type(factor)
        if len(rows):
            stage.shift(rows, change[rows])
        if problem.has_free_bias:
            descent.balance(descent.inside_scores())
        norm2, lack, at = _shortfalls(descent)
        if 0.5 * norm2 + float(blocks.rival_cap[at[0]] @ lack) > values[0]:
            self.undo(descent)

    def undo(self, descent: BlockDescent) -> bool:
        """Back to the point before; whether there was another.

        Passes from the multiple would take back what it did, by steps of every pattern.
        """
        if self.before is None:
            return False
        blocks, stage = descent.blocks, descent.stage
        assert isinstance(stage, KernelStage)
        blocks.V[:], stage.F[:], descent.b, stage.constant[:] = self.before
        blocks.total[:] = blocks.V.sum(axis=1)
        self.before = None
        return True

    def keep(self) -> None:
        """Go on from the multiple."""
        self.before = None


def _shortfalls(descent: BlockDescent) -> tuple[float, np.ndarray, tuple[np.ndarray, ...]]:
    """||w||^2, what the violated constraints of the set lack, and which these are."""
    stage, blocks = descent.stage, descent.blocks
    scores = descent.inside_scores()
    shifted = descent.problem.raised(scores + descent.b, stage.ids)
    lack = descent.machine.deficits(shifted, blocks.own)
    at = np.nonzero(lack > 0.0)
    return stage.norm2(blocks.V, scores), lack[at], at
