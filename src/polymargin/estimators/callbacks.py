"""scikit-learn's callback protocol where it exists (1.9 and later); a silent stand-in elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from polymargin.problem.problem import Problem
from polymargin.solvers.history import AnyCheck, Watcher, format_check

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn before 1.9
    HAS_CALLBACKS = False

    class CallbackSupport:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """The method itself."""
        return method


__all__ = ["CallbackSupport", "FitReporter", "onlookers", "watched", "with_callbacks"]

_outsiders: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Let ``watcher`` see every check of every fit that starts inside, in any thread."""
    _outsiders.append(watcher)
    try:
        yield
    finally:
        _outsiders.remove(watcher)


def onlookers(estimator: Any) -> tuple[Watcher, ...]:
    """Who sees the checks of a fit, but needs no fitted model: the printed line and outsiders."""
    return (*((_print,) if estimator.verbose else ()), *_outsiders)


class FitReporter:
    """Tells of every check: a printed line, and the callbacks of the estimator.

    ``attributes(support, tau, W, intercept)`` makes the fitted attributes of a dual point, so that
    a callback can score the model as it is at that moment; ``check_`` of that model is the entry
    of the history.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        problem: Problem,
        attributes: Callable[..., dict[str, Any]],
    ) -> None:
        self.estimator = estimator
        self.data = (X, y)
        self.metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.problem = problem
        self.attributes = attributes
        self.stopped = False
        self.context = None
        if HAS_CALLBACKS and getattr(estimator, "_skl_callbacks", None):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(
                estimator=estimator, X=X, y=y, metadata=self.metadata
            )

    @property
    def watchers(self) -> tuple[Watcher, ...]:
        called = () if self.context is None else (self._call,)
        return (*called, *onlookers(self.estimator))

    def _call(self, check: AnyCheck, snapshot: Callable[[], tuple[np.ndarray, np.ndarray]]) -> bool:
        support, tau = snapshot()
        W = None
        if self.problem.kernel.is_linear:
            from polymargin.certificate.certificate import prototypes

            W = prototypes(self.problem, support, tau)
        intercept = self.problem.kernel.offset * tau.sum(axis=0)
        if self.problem.present_bias is not None:
            intercept = intercept + self.problem.present_bias
        X, y = self.data
        assert self.context is not None
        task = self.context.subcontext(task_name="check")
        task.call_on_fit_task_begin(estimator=self.estimator, X=X, y=y, metadata=self.metadata)
        self.stopped = bool(
            task.call_on_fit_task_end(
                estimator=self.estimator,
                X=X,
                y=y,
                metadata=self.metadata,
                reconstruction_attributes={
                    **self.attributes(support, tau, W, intercept),
                    "check_": check._asdict(),
                },
            )
        )
        return self.stopped

    def finish(self) -> None:
        """The fit itself ends."""
        if self.context is not None:
            X, y = self.data
            self.context.call_on_fit_task_end(
                estimator=self.estimator, X=X, y=y, metadata=self.metadata
            )


def _print(check: AnyCheck, snapshot: Callable[[], Any]) -> bool:
    print(format_check(check), flush=True)
    return False
