"""The runs behind the figures: which, with what kernel, and their curves against seconds."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polymargin.estimators.monitor import FitMonitor
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.reproduce.benchmark_data import BenchmarkSplit
from polymargin.solvers.smo.pattern_smo import PatternSMO

__all__ = ["Curve", "Member", "Setting", "choose", "fit_member", "members", "run_member"]

GAMMAS = (0.005, 0.01, 0.02, 0.04, 0.08)
COSTS = (1.0, 10.0, 100.0)
CUBIC_COSTS = (0.01, 0.1, 1.0)
_VALIDATION = 0.2  # of the training part
_MOST_ERRORS = 80  # points of a test error curve
_FEW = 100  # rows of the small cache
_MANY = 3000  # rows of the large one: more than there are support vectors


@dataclass(frozen=True)
class Setting:
    """Kernel and cost, chosen on the training part, and what the runs may take."""

    gamma: float
    C: float
    validation_error: float
    tol: float = 1e-3
    seconds: float = 120.0
    repeats: int = 1
    kernel: str = "rbf"


@dataclass(frozen=True)
class Member:
    """One curve: a member of the family, or the default solver, with a cache of so many rows."""

    label: str
    rows: int
    parts: tuple[str, str, str] | None = None
    kernel: str = "rbf"

    @property
    def key(self) -> str:
        """Name of the curve."""
        return f"{self.label}, {self.rows} rows" + ("" if self.kernel == "rbf" else ", cubic")


@dataclass
class Curve:
    """History of a run, test errors at some of its checks, and how it ended."""

    member: Member
    status: str
    relative_gap: float
    support_vectors: int
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    error_seconds: np.ndarray = field(default_factory=lambda: np.empty(0))
    errors: np.ndarray = field(default_factory=lambda: np.empty(0))

    def first(self, column: str, name: str, level: float) -> float:
        """The value of a column when another one first was at least ``level``; NaN if never."""
        at = np.flatnonzero(self.columns[name] >= level)
        return float(self.columns[column][at[0]]) if len(at) else float("nan")


def members(n: int) -> dict[str, list[Member]]:
    """The curves of every figure; a curve of two figures is run once."""
    few, many = min(_FEW, n // 10), min(_MANY, n)

    def some(parts: str, rows: int = many, kernel: str = "rbf") -> list[Member]:
        """Members by the words of their parts: pattern, selection, threshold; ";" between them."""
        words = [one.split() for one in parts.split(";")]
        return [Member(", ".join(one), rows, (one[0], one[1], one[2]), kernel) for one in words]

    cached = (
        "basic bmg mean; all-pairs bmg mean; opt-kkt bmg mean; opt-kkt kkt mean; "
        "fixed-point kkt mean; exact core mean"
    )
    cubic = (
        "opt-kkt kkt mean; opt-kkt amg mean; opt-kkt bmg mean; "
        "all-pairs kkt mean; all-pairs amg mean; all-pairs bmg mean"
    )
    found = {
        "cooling": some(
            "opt-kkt kkt log; opt-kkt amg log; opt-kkt bmg log; all-pairs amg log; "
            "all-pairs bmg log; basic amg log; fixed-point kkt log"
        ),
        "thresholds": some(
            "opt-kkt bmg log; opt-kkt bmg max; opt-kkt bmg mean; all-pairs bmg max; "
            "all-pairs bmg mean"
        ),
        "selections": some(
            "opt-kkt kkt mean; opt-kkt amg mean; opt-kkt bmg mean; all-pairs amg mean; "
            "all-pairs bmg mean"
        ),
        "cache": some(cached) + some(cached, few),
    }
    for curves in found.values():
        curves.append(Member("default solver", many))
    found["cache"].append(Member("default solver", few))
    default = Member("default solver", many, kernel="poly")
    return found | {"cubic": [*some(cubic, kernel="poly"), default]}


def choose(digits: BenchmarkSplit, seed: int = 0, kernel: str = "rbf") -> Setting:
    """Width and C by the error on a fifth of the training part; the smallest among equals.

    The cubic kernel (1 + gamma x'z)^3 has the gamma of the middle.
    """
    n = len(digits.y_train)
    order = np.random.default_rng(seed + 1).permutation(n)
    held, rest = order[: int(_VALIDATION * n)], order[int(_VALIDATION * n) :]
    width = digits.X_train.shape[1] / 784.0  # the grid is made for 784 pixels
    found = []
    for C in COSTS if kernel == "rbf" else CUBIC_COSTS:
        for gamma in GAMMAS if kernel == "rbf" else GAMMAS[2:3]:
            model = MulticlassSVC(
                kernel=kernel, gamma=gamma / width, coef0=1.0, C=C, tol=1e-2, random_state=seed
            ).fit(digits.X_train[rest], digits.y_train[rest])
            error = 1.0 - model.score(digits.X_train[held], digits.y_train[held])
            found.append((error, C, gamma / width))
    error, C, gamma = min(found)
    return Setting(gamma, C, error, kernel=kernel)


def model_of(member: Member, setting: Setting, n: int, seed: int) -> MulticlassSVC:
    """The estimator of a curve; the default solver gets the memory of as many of its rows."""
    solver: Any = "auto"
    if member.parts is not None:
        pattern, selection, threshold = member.parts
        solver = PatternSMO(pattern, selection, threshold, cache_rows=member.rows)
    return MulticlassSVC(
        kernel=setting.kernel, gamma=setting.gamma, coef0=1.0, C=setting.C, tol=setting.tol,
        max_iter=10**9, max_time=setting.seconds, solver=solver, cache_mb=4e-6 * member.rows * n,
        random_state=seed,
    )  # fmt: skip


class ProcessorMonitor(FitMonitor):
    """Seconds of processor time instead: other work on the machine counts less."""

    def setup(self, estimator: Any, context: Any) -> None:
        super().setup(estimator, context)
        self.idle = time.process_time()  # before the fit, and in the making of models

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        super().on_fit_task_begin(estimator, context)
        self.asked = time.process_time()

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        before = len(self.records)
        super().on_fit_task_end(estimator, context, fitted_estimator=fitted_estimator)
        if len(self.records) > before:
            self.records[-1]["seconds"] = self.asked - self.idle
            self.idle += time.process_time() - self.asked


def fit_member(
    member: Member, setting: Setting, digits: BenchmarkSplit, seed: int
) -> tuple[MulticlassSVC, FitMonitor]:
    """Train once; the dual point of every check is kept, test errors come later."""
    monitor = ProcessorMonitor(lambda model: (model.support_, model.dual_coef_))
    model = model_of(member, setting, len(digits.y_train), seed).set_callbacks(monitor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(digits.X_train, digits.y_train), monitor


def run_member(
    member: Member, setting: Setting, digits: BenchmarkSplit, test_kernel: np.ndarray, seed: int = 0
) -> Curve:
    """The curve of a member: seconds are the best of the repeats, check by check."""
    n, Q = len(digits.y_train), len(np.unique(digits.y_train))
    fits = [fit_member(member, setting, digits, seed) for _ in range(setting.repeats)]
    model, monitor = fits[0]
    columns = monitor.as_arrays()
    points = columns.pop("value")
    best = np.diff(columns["seconds"], prepend=0.0)
    for _, other in fits[1:]:
        # the same bits, so the same checks, up to where the time was over
        steps = np.diff(other.as_arrays()["seconds"], prepend=0.0)
        shorter = min(len(best), len(steps))
        best[:shorter] = np.minimum(best[:shorter], steps[:shorter])
    columns["seconds"] = np.cumsum(best)
    curve = Curve(
        member, model.status_, model.certificate_.relative_gap, len(model.support_), columns
    )
    shown = np.unique(np.geomspace(1, len(points), min(len(points), _MOST_ERRORS)).astype(int)) - 1
    curve.error_seconds = columns["seconds"][shown]
    shares = []
    for k in shown:
        support, tau = points[k]
        shares.append(wrong_share(test_kernel, support, tau, digits.y_test, n, Q))
    curve.errors = 100.0 * np.array(shares)
    return curve


def wrong_share(
    K: np.ndarray, support: np.ndarray, tau: np.ndarray, y: np.ndarray, n: int, Q: int
) -> float:
    """Share of wrong labels of a dual point, from the kernel values of the test examples."""
    full = np.zeros((n, Q), dtype=K.dtype)
    full[support] = tau
    return float(((K @ full).argmax(axis=1) != y).mean())
