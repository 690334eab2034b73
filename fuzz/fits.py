"""Fuzz target of fits: any estimator on any small table gives a sound model, or one clear line.

Sound: it ends in time; scores are finite, labels are their argmax, single rows are scored like all
rows together; certificate and energy agree with a slow path of their own; the same seed gives the
same bits, and so does the model saved and loaded; no error but ValueError and no warning of NumPy.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

import polymargin
from fuzz.fit_cases import Case, case_of
from fuzz.slow_certificate import slow_energy, slow_primal
from polymargin import AutoSVC, ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, MultiPrototypeSVCCV

__all__ = ["FITS", "check_fit"]

_ALLOWANCE = 0.5  # seconds of the processor beyond a time limit
_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
_NAMES = re.compile(
    r"\b(X|y|C|Cs|kernel|gamma|degree|coef0|sample_weight|class_weight|cost_matrix|solver|machine"
    r"|intercept|intercept_scaling|landmarks|metric|finish|fit_into|eta|cv|n_prototypes|init"
    r"|calibration_folds|probabilities|estimator|model|sample|PatternSMO|WorkingSets|assignment|annealing|scale)\b"
)


def check_fit(data: bytes, allowance: float = _ALLOWANCE) -> None:
    """One case: fit, and every property of what comes out.

    A fit may take ``allowance`` seconds of the processor more than its time limit.
    """
    case = case_of(data)
    with strict_warnings():
        model = _trained(case, allowance)
        if model is None:
            return
        scores = _scores(model, case.X)
        if scores is not None:
            _check_predictions(model, case.X, scores)
        _check_certificate(model, case)
        if not case.is_clocked and not case.batches:
            _check_same_bits(model, case)
        _check_saved(model, case.X)
        _ask_more(model, case)


@contextmanager
def strict_warnings() -> Iterator[None]:
    """Warnings of NumPy are errors; those of the package are not looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


def refused(work: Callable[[], Any]) -> Any:
    """What work gives; None where it was refused in one line that names an argument."""
    try:
        return work()
    except ValueError as refusal:
        if isinstance(refusal, np.linalg.LinAlgError | UnicodeError):
            raise
        text = str(refusal)
        assert text.strip(), "a refusal without words"
        assert "\n" not in text, f"more than one line: {text!r}"
        assert _NAMES.search(text), f"names no argument: {text!r}"
        return None


def _trained(case: Case, allowance: float) -> Any:
    """The fitted model, or None; a fit that took too long may have compiled: three turns."""
    limit = case.model.get_params().get("max_time")
    for turn in range(3):
        begun = time.process_time()
        model = refused(case.train)
        seconds = time.process_time() - begun
        if limit is None or seconds <= limit * max(1, case.batches) + allowance:
            return model
        assert turn < 2, f"{seconds:.2f} s of the processor with max_time={limit}"
    return model


def _columns(scores: np.ndarray) -> np.ndarray:
    return scores if scores.ndim == 2 else np.column_stack([np.zeros(len(scores)), scores])


def _scores(model: Any, X: Any) -> np.ndarray | None:
    """Scores (n, n_classes); None where they overflow, told in one line."""
    found = refused(lambda: model.decision_function(X))
    if found is None:
        return None
    found = _columns(found)
    assert np.isfinite(found).all(), "scores are not finite"
    return found


def _check_predictions(model: Any, X: Any, scores: np.ndarray) -> None:
    labels = model.predict(X)
    best = np.sort(scores, axis=1)
    noise = 1e-9 * np.abs(scores).max() + 2.0 * _rounding(model, X)
    clear = best[:, -1] - best[:, -2] > noise
    wanted = model.classes_[scores.argmax(axis=1)]
    assert (labels[clear] == wanted[clear]).all(), "a label is not the argmax"
    if getattr(model, "kernel", None) == "precomputed" or not scores.shape[0]:
        return
    one = X.tocsr()[:1] if sparse.issparse(X) else X[:1]
    alone = _columns(model.decision_function(one))
    limit = 1e-9 * np.abs(scores[0]).max() + 1e-12 * np.abs(scores).max() + _rounding(model, X)
    assert np.abs(alone - scores[:1]).max() <= limit, "a single row has other scores"
    assert not clear[0] or model.predict(one)[0] == labels[0], "a single row has another label"


def _rounding_of_products(model: Any, X: Any) -> float:
    """The same for products with the prototypes of a linear machine."""
    weights = getattr(model, "prototypes_", getattr(model, "coef_", None))
    if weights is None:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(1e-14 * (abs(X) @ np.abs(np.asarray(weights, dtype=np.float64)).T).max())
    return found if np.isfinite(found) else np.inf


def _rounding(model: Any, X: Any) -> float:
    """How far sums may be off: large terms may cancel."""
    if hasattr(model, "best_estimator_"):
        steps = getattr(model.best_estimator_, "steps", [(None, model.best_estimator_)])
        return _rounding(steps[-1][1], X) if len(steps) == 1 else 0.0
    if getattr(model, "kernel", "linear") == "linear":
        return _rounding_of_products(model, X)
    if model.kernel == "precomputed":
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        rows = X.multiply(X) if sparse.issparse(X) else np.square(X, dtype=np.float64)
        norm = np.float64(rows.sum(axis=1).max())
        parts = [part for _, part in model._kernel.parts] or [model._kernel]
        gamma = np.float64(max(part.gamma for part in parts))
        size = 1.0 + norm + 1e-3 * min(gamma * norm, 1e300)  # of sums of kernels; of exponents
        if model.kernel == "poly":
            size = (gamma * norm + abs(model.coef0)) ** model.degree
        found = float(1e-12 * size * np.abs(model.dual_coef_).sum())
    return found if np.isfinite(found) else np.inf


def _caps(model: Any, case: Case) -> np.ndarray:
    """Weights C_i of all rows."""
    weight = np.ones(len(case.y)) if case.weight is None else case.weight
    if model.class_weight == "balanced":
        present = np.unique(case.y[weight > 0])
        total = np.array([weight[case.y == label].sum() for label in present])
        factor = weight.sum() / (len(present) * total)
        at = np.minimum(np.searchsorted(present, case.y), len(present) - 1)
        weight = weight * factor[at]
    return model.C * weight


def _check_certificate(model: Any, case: Case) -> None:
    found = model.certificate_
    numbers = [found.primal, found.dual, found.gap]
    assert not np.isnan(numbers).any(), found
    assert found.gap >= 0, found
    assert found.relative_gap >= 0, found
    if case.batches or not np.isfinite(found.gap):
        return
    slow = _slow_value(model, case)
    if slow is None:
        return
    expected, value = slow
    limit = 1e-9 * abs(expected.value) + 4 * expected.slack + np.longdouble(1e-300)
    off = abs(np.longdouble(value) - expected.value)
    assert off <= limit, (
        f"{value!r} against {float(expected.value)!r} by the slow path, {float(off / limit):.3g} "
        f"times the allowed difference"
    )


def _slow_value(model: Any, case: Case) -> Any:
    if isinstance(model, MulticlassSVC):
        hard = not isinstance(model.C, str) and np.isinf(model.C)
        if model.landmarks is not None or hard or model.certificate_.kernel_psd is False:
            return None
        value = model.certificate_.primal
        slow = slow_primal(model, case.X, case.y, _caps(model, case))
    elif isinstance(model, MultiPrototypeSVC) and not isinstance(model.C, str):
        value = model.energy_
        if model.n_prototypes == "auto" or model.metric == "auto":
            return None
        slow = slow_energy(model, case.X, case.y, _caps(model, case))
    else:
        return None
    if slow is None or not np.isfinite(value) or not np.isfinite(float(slow.value)):
        return None
    return slow, value


def _check_same_bits(model: Any, case: Case) -> None:
    first = {k: v for k, v in vars(model).items() if isinstance(v, np.ndarray)}
    value = model.certificate_
    again = case.train()
    for name, array in first.items():
        assert np.array_equal(array, getattr(again, name), equal_nan=array.dtype.kind == "f"), name
    assert again.certificate_ == value


def _check_saved(model: Any, X: Any) -> None:
    if callable(getattr(model, "kernel", None)):
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        path = os.path.join(folder, "model.pm")
        polymargin.save(model, path)
        loaded = polymargin.load(path)
    first, second = _scores(model, X), _scores(loaded, X)
    assert (first is None) == (second is None)
    assert first is None or np.array_equal(first, second), "another model after loading"


@cache
def _questions() -> tuple[Callable[[Any, Case], Any], ...]:
    return (
        lambda m, case: m.predict_proba(case.X) if hasattr(m, "predict_proba") else None,
        lambda m, case: polymargin.explain(m, case.X),
        lambda m, case: polymargin.certified_radius(m, case.X),
        lambda m, case: polymargin.counterfactual(m, case.X[:3]),
        lambda m, case: polymargin.predict_set(m, case.X, 0.9),
        lambda m, case: polymargin.margin_record(m, case.X, case.y),
        lambda m, case: polymargin.leave_one_out_count(m, case.X, case.y),
        lambda m, case: polymargin.gacv(m, case.X, case.y),
        lambda m, case: polymargin.to_json(m),
        lambda m, case: polymargin.to_c(m),
    )


def _ask_more(model: Any, case: Case) -> None:
    """One further question that a user may ask of a fitted model."""
    if isinstance(model, MultiPrototypeSVCCV | AutoSVC | ConvexHullSVC):
        return
    number = sum(map(ord, repr(model))) + len(case.y)
    questions = _questions()
    refused(lambda: questions[number % len(questions)](model, case))


FITS: dict[str, Callable[[bytes], None]] = {"fits": check_fit}
