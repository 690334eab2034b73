"""Method: what a solver has to offer so that the driver can run it.

The driver (``solvers.driver``) asks a method for a check, records it, keeps the best point, asks
the judge, decides whether to stop, and asks for the next round.  A method proposes points and never
decides that it is finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from polymargin.certificate.certificate import Judgement, certify
from polymargin.certificate.judge import judge
from polymargin.certificate.training_scores import KnownRows
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.run import HARD_MARGIN_LIMIT

if TYPE_CHECKING:
    from polymargin.solvers.driver import Progress

__all__ = ["Checked", "Method", "unjudged"]


class Checked(NamedTuple):
    """What a method knows of its present point.

    ``merit`` is what points are compared by, lower is better (``objective.merit``); ``active`` is
    the size that the history shows; ``n_support`` is what the cost of a certificate depends on;
    the gap is compared with P, or with ``least`` where P is below it.
    """

    primal: float
    dual: float
    merit: tuple[float, float]
    active: int
    n_support: int = 0
    least: float = 0.0

    @property
    def relative_gap(self) -> float:
        """(P - D) / P, 0 where P is 0."""
        gap, value = max(self.primal - self.dual, 0.0), max(self.primal, self.least)
        if 0.0 < value < np.inf:
            return float(gap / value)
        return 0.0 if value <= 0.0 else np.inf


class Method(Protocol):
    """A solver: five verbs that every method has, and some with a default that fits most.

    Attributes
    ----------
    problem : Problem
    takes_interior_point : bool
        Whether ``adopt`` goes on from any feasible point, so that the driver may switch to the
        interior point where descent is slow.
    remembers : int
        Judged points whose scores of all patterns are kept for the method.
    advice : str or None
        What a user could change, where the method knows better than the status.
    """

    problem: Problem
    takes_interior_point: bool = False
    remembers: int = 0
    advice: str | None = None

    def start(self, progress: Progress) -> None:
        """A run begins: count passes, steps and work in ``progress``, ask it for the time.

        May raise ``OutOfTimeError``, as every other verb but ``point``.
        """
        ...

    def check(self) -> Checked:
        """P and D of the present point."""
        ...

    def advance(self, checked: Checked) -> bool:
        """The next round; False where nothing more can be gained."""
        ...

    def point(self) -> DualPoint:
        """The present point, exactly feasible at every look at the clock."""
        ...

    # -- verbs with a default ------------------------------------------------------------------

    def snapshot(self) -> DualPoint:
        """The present point as watchers see it, with the intercept of the last check."""
        return self.point()

    def rejected(self, judgement: Judgement) -> None:
        """The judge finds a wider gap than ``check`` did: use more digits in the next round."""
        return

    def adopt(self, point: DualPoint) -> None:
        """Go on from another point (``takes_interior_point``)."""
        raise TypeError(f"{type(self).__name__} goes on from points of its own only.")

    def largest_weight(self) -> float:
        """The largest dual variable: where the interior point starts."""
        return 0.0

    def last_round(self, checked: Checked) -> bool:
        """One more round within the tolerance, where it costs next to nothing; whether made."""
        return False

    def refine(self, point: DualPoint, judgement: Judgement) -> tuple[DualPoint, Judgement]:
        """The last digits of a converged point, where they are cheap."""
        return point, judgement

    def history_columns(self, primal: float, dual: float) -> tuple[float, ...]:
        """Further columns of the history."""
        return ()

    def why_over(self, checked: Checked) -> str | None:
        """A reason to end that lies in the problem: a hard margin that does not exist (19.3)."""
        problem = self.problem
        if not problem.is_hard:
            return None
        hopeless = checked.dual * problem.radius2 > HARD_MARGIN_LIMIT
        return "not_separable" if hopeless or bool((problem.diagonal <= 0.0).any()) else None

    def judge(
        self,
        point: DualPoint,
        scores_of_all: np.ndarray | None = None,
        known_rows: KnownRows | None = None,
    ) -> Judgement:
        """What the judge says of a point; the parameters are those of ``judge``."""
        return judge(self.problem, point, scores_of_all, known_rows)

    def unjudged(self, point: DualPoint, dual: float) -> Judgement:
        """For a fit without time for a certificate: no primal value, the best dual value seen."""
        return unjudged(self.problem, point, dual)

    def final_status(self, status: str, judgement: Judgement) -> str:
        """The status, seen once more in the light of the certificate."""
        return status


def unjudged(problem: Problem, point: DualPoint, dual: float = 0.0) -> Judgement:
    """What is known of a point without a certificate: its intercept, and a dual value."""
    intercept = problem.kernel.offset * point.coefficients(problem).sum(axis=0)
    if problem.has_free_bias and point.b is not None:
        intercept = intercept + point.b
    certificate = certify(np.inf, max(dual, 0.0), problem.kernel_psd)
    unique = False if problem.has_free_bias else None
    return Judgement(certificate, None, intercept, -np.inf, 0.0, 1.0, unique)
