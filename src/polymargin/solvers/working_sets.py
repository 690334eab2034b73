"""WorkingSets: the decomposition of Frank-Wolfe with its choices, for ``solver=``."""

from __future__ import annotations

import numbers

from sklearn.base import BaseEstimator

from polymargin.exceptions import shown

__all__ = ["RULES", "WorkingSets"]

RULES = ("direction", "gap")


class WorkingSets(BaseEstimator):
    """Frank-Wolfe on working sets of examples: only their kernel columns are computed.

    For ``MulticlassSVC`` with machine "ww", "llw" or "msvm2", a free intercept and a finite C.

    Parameters
    ----------
    size : int >= 2, default=200
        Examples of a working set.
    rule : {"direction", "gap"}, default="direction"
        Which examples: those of the most violating balanced direction first, then those with the
        largest terms of the duality gap; or only the latter, which is closest to print and may
        find a set without any feasible descent: the fit then ends "stalled".
    inner_iterations : int >= 1, default=30
        Iterations of Frank-Wolfe on one working set.

    See Also
    --------
    PatternSMO : The SMO-like family.
    MulticlassSVC : Takes it as ``solver``.

    References
    ----------
    Section 5.3 of the documentation of the Weston-Watkins machine (errata WW-2 corrected).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, WorkingSets
    >>> X, y = load_iris(return_X_y=True)
    >>> solver = WorkingSets(size=40)
    >>> model = MulticlassSVC("ww", C=0.1, kernel="rbf", gamma=0.5, tol=0.05, solver=solver)
    >>> model.fit(X, y).status_
    'converged'
    """

    def __init__(
        self, size: int = 200, rule: str = "direction", inner_iterations: int = 30
    ) -> None:
        self.size = size
        self.rule = rule
        self.inner_iterations = inner_iterations

    def check(self, is_hard: bool = False) -> None:
        """Refuse what cannot be; ``is_hard`` where C is infinite (refused by the method)."""
        for name, least in (("size", 2), ("inner_iterations", 1)):
            value = getattr(self, name)
            is_count = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            if not (is_count and int(value) >= least):
                raise ValueError(
                    f"solver: {name} must be an integer >= {least}, got {shown(value)}."
                )
        if not isinstance(self.rule, str) or self.rule not in RULES:
            raise ValueError(f"solver: rule must be one of {RULES}, got {shown(self.rule)}.")
