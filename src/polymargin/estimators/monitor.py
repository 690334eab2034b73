"""FitMonitor: a function of the model, evaluated at every check of a fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["FitMonitor"]


class FitMonitor:
    """Evaluates a function of the model at every check of a fit, such as its test error.

    A callback of scikit-learn's protocol (scikit-learn 1.9 or later): give it to
    ``set_callbacks`` of any estimator of this package.  At every check, that is for every entry of
    ``history_`` but the final one, ``function`` gets a fitted copy of the estimator as it is at
    that moment, with ``decision_function`` and ``predict``.

    Parameters
    ----------
    function : callable
        ``function(model)``; what it returns is noted.

    Attributes
    ----------
    records : list of dict
        The entry of ``history_`` at that moment and ``value``, what the function returned.
        ``seconds`` is without the time that earlier models and calls of the function took.

    See Also
    --------
    PatternSMO : A family of solvers to be watched with it.
    plots.HistoryDisplay : Draws what every fit records.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import FitMonitor, MulticlassSVC, PatternSMO
    >>> X, y = load_iris(return_X_y=True)
    >>> monitor = FitMonitor(lambda model: 1 - model.score(X[1::2], y[1::2]))
    >>> model = MulticlassSVC(kernel="rbf", solver=PatternSMO(), random_state=0)
    >>> model = model.set_callbacks(monitor).fit(X[::2], y[::2])
    >>> errors = monitor.as_arrays()["value"]
    >>> bool(errors[-1] < 0.1)
    True
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.records: list[dict[str, Any]] = []
        self.spent = self.began = 0.0

    def setup(self, estimator: Any, context: Any) -> None:
        """Called as a fit begins: clear the records."""
        self.records = []
        self.spent = 0.0

    def teardown(self, estimator: Any, context: Any) -> None:
        """The fit ended."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Called as a check begins, before its model is made: note the time."""
        self.began = time.perf_counter()

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """A check ended: evaluate the function."""
        check = getattr(fitted_estimator, "check_", None)
        if check is None:
            return
        value = self.function(fitted_estimator)
        self.records.append({**check, "seconds": check["seconds"] - self.spent, "value": value})
        self.spent += time.perf_counter() - self.began

    def as_arrays(self) -> dict[str, np.ndarray]:
        """The records as equally long arrays, as ``history_`` has them.

        Values that are not numbers or equal arrays make an array of objects.
        """
        names = self.records[0] if self.records else ()
        return {name: _as_array([record[name] for record in self.records]) for name in names}


def _as_array(values: list[Any]) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:  # of different shapes
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
