"""scikit-learn's callback protocol where it exists (1.9 and later); without it, nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from polymargin.estimators.fitted import Attributes
from polymargin.problem.point import DualPoint
from polymargin.solvers.history import AnyCheck, Watcher, format_check

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn before 1.9
    HAS_CALLBACKS = False

    class CallbackSupport:  # type: ignore[no-redef]
        """Stand-in without methods."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


__all__ = [
    "CallbackSupport",
    "FitReporter",
    "fit_watchers",
    "outer_watchers",
    "watched",
    "with_callbacks",
]

_watchers_of_all_fits: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Let ``watcher`` see every check of every fit that starts inside, in any thread."""
    _watchers_of_all_fits.append(watcher)
    try:
        yield
    finally:
        _watchers_of_all_fits.remove(watcher)


def fit_watchers(estimator: Any) -> tuple[Watcher, ...]:
    """Watchers of checks that need no fitted model: the printed line and those of ``watched``."""
    return (*((_print,) if estimator.verbose else ()), *outer_watchers())


def outer_watchers() -> tuple[Watcher, ...]:
    """The watchers of all ``watched`` blocks that are open now."""
    return tuple(_watchers_of_all_fits)


class FitReporter:
    """Reports every check: a printed line, and the callbacks of the estimator.

    ``attributes(point, None)`` makes the fitted attributes of a dual point, so that a callback can
    score the model as it is at that moment; ``check_`` of that model is the entry of the history.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        attributes: Attributes,
    ) -> None:
        self.estimator = estimator
        self.data = (X, y)
        self.metadata = None if sample_weight is None else {"sample_weight": sample_weight}
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
        return (*called, *fit_watchers(self.estimator))

    def _call(self, check: AnyCheck, snapshot: Callable[[], DualPoint]) -> bool:
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
                    **self.attributes(snapshot(), None),
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
