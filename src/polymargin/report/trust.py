"""How far a model can be trusted on new data: what is measured, what is proven, what is not."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from polymargin.estimators.inspection import Labelled, Parts, margin_target, model_space
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.explanation.prediction_sets import predict_set
from polymargin.explanation.robustness import certified_radius
from polymargin.plots.margin_display import MarginDistributionDisplay
from polymargin.problem.machines import find_machine
from polymargin.report.measures import Rates
from polymargin.selection.bounds import Bound, growth_bound, margin_bound
from polymargin.selection.leave_one_out import leave_one_out

__all__ = ["Ground", "grounds"]

_LEFT_OUT_EXAMPLES = 500  # leave-one-out and the sphere of the bound take seconds at most
_LEFT_OUT_SECONDS = 5.0
_RADIUS_EXAMPLES = 200
_COVERAGE = 0.9


class Ground(NamedTuple):
    """One reason to trust a model: a name, a figure, and what the figure says."""

    name: str
    figure: str
    sentence: str


def grounds(
    parts: Parts, examples: Labelled, training: Rates | None, X_train: Any, y_train: Any
) -> list[Ground]:
    """Everything that is cheap to know; what a model does not allow is left out.

    Parameters
    ----------
    parts : Parts
    examples : Labelled
        The measured examples.
    training : Rates or None
        Errors on the training examples.
    X_train, y_train : training examples or None
    """
    found = [_margins(parts, examples), _radius(parts, examples), _sets(parts, examples)]
    Z = None if training is None else model_space(parts, X_train)
    found.append(_left_out(parts, Z, y_train))
    if training is not None:
        found.append(_bound(parts.last, Z, y_train, training))
    return [one for one in found if one is not None]


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}\N{NO-BREAK SPACE}%"


def _margins(parts: Parts, examples: Labelled) -> Ground | None:
    if examples.margins is None or not np.isfinite(examples.margins).any():
        return None
    record = MarginDistributionDisplay(examples.margins, margin_target(parts.whole))
    n = len(record.known)
    asked = "" if record.target is None else " by at least the margin that training asks for"
    return Ground(
        "Margins",
        f"{_percent(record.n_clear / n)} clear",
        f"{_percent(record.n_clear / n)} of the measured examples are right{asked}, "
        f"{_percent(record.n_slack / n)} are right by less, {_percent(record.n_wrong / n)} are "
        "wrong or tied.",
    )


def _radius(parts: Parts, examples: Labelled) -> Ground | None:
    """The median certified radius of some of the examples."""
    n = examples.X.shape[0]
    some = np.unique(np.linspace(0, n - 1, min(n, _RADIUS_EXAMPLES)).astype(np.intp))
    try:
        found = certified_radius(parts.whole, _safe_indexing(examples.X, some), units="scaled")
    except (ValueError, TypeError):
        return None  # kernels and steps without a known distance
    middle = float(np.median(found.radius))
    if not np.isfinite(middle):
        return None
    where = "features behind the scaler" if parts.steps else "features"
    return Ground(
        "Certified radius",
        f"{middle:.3g}",
        f"Half of {len(some)} measured examples keep their label under every change of the "
        f"{where} that is shorter than {middle:.3g} (Euclidean length).",
    )


def _sets(parts: Parts, examples: Labelled) -> Ground | None:
    """How prediction sets do on the measured examples, where the model was calibrated for them."""
    try:
        sets = predict_set(parts.whole, examples.X, _COVERAGE)
    except (ValueError, TypeError):
        return None
    held = (examples.own >= 0) & sets[np.arange(len(sets)), examples.own]
    return Ground(
        "Prediction sets",
        f"{_percent(float(held.mean()))} hold",
        f"Sets of labels that are to hold the true one for {_percent(_COVERAGE)} of new examples "
        f"hold it for {_percent(float(held.mean()))} of the measured ones, with "
        f"{sets.sum(axis=1).mean():.2f} labels in the mean.",
    )


def _left_out(parts: Parts, Z: Any, y: Any) -> Ground | None:
    """The exact leave-one-out error where it is cheap, else its bound by support vectors."""
    last = parts.last
    if not isinstance(last, MulticlassSVC):
        return None
    fixed = ", the steps before the classifier kept" if parts.steps else ""
    if Z is not None and Z.shape[0] <= _LEFT_OUT_EXAMPLES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = leave_one_out(last, Z, y, refit_gamma=False, max_time=_LEFT_OUT_SECONDS)
            except ValueError:
                found = None  # a class with a single example
        if found is not None and found.status == "complete":
            return Ground(
                "Leave-one-out",
                _percent(found.error_rate),
                f"Trained without each training example in turn{fixed}, the model gets "
                f"{found.errors:,} of {int(found.known.sum()):,} wrong. This is computed exactly.",
            )
    machine = find_machine(last.machine)
    n = getattr(last, "_n_train", 0)
    if getattr(last, "landmarks", None) is not None:
        return None  # its dual variables are not kept
    if not n or not machine.has_rivals or last._intercept_kind(machine) == "free":
        return None
    if not hasattr(last, "support_"):  # a large linear model is saved without its support vectors
        return None
    most = len(last.support_) / n
    return Ground(
        "Leave-one-out",
        f"≤ {_percent(most)}",
        f"Only {len(last.support_):,} of {n:,} training examples carry weight; leaving out any "
        f"other changes nothing{fixed}, so at most {_percent(most)} could be wrong if left out, "
        "to the accuracy of training.",
    )


def _bound(last: Any, Z: Any, y: Any, training: Rates) -> Ground | None:
    """The better of the two theorems on prototype machines."""
    found: list[Bound] = []
    for bound, is_cheap in (
        (growth_bound, True),
        (margin_bound, not training.wrong and training.n <= _LEFT_OUT_EXAMPLES),
    ):
        try:
            found += [bound(last, Z, y)] if is_cheap else []
        except (ValueError, TypeError):
            return None  # the theorems are about other machines
    best = min(found, key=lambda one: (one.vacuous, one.value))
    figure = "says nothing here" if best.vacuous else f"≤ {_percent(best.value)}"
    return Ground("Bound for all data", figure, f"{best.sentence} ({best.reference})")
