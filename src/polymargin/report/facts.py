"""What was trained and what is proven of it, in words."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer

from polymargin import __version__
from polymargin.estimators.endings import ending, unfinished
from polymargin.estimators.inspection import Parts
from polymargin.problem.machines import find_machine
from polymargin.tables.table_columns import TableColumns

__all__ = ["Proof", "certificate_in_words", "describe", "machine_name", "parameter_rows", "short"]

_MOST_CHARACTERS = 60
_MOST_CLASSES = 40
_MOST_COLUMNS = 8


class Proof(NamedTuple):
    """The certificate for people: its state, sentences, figures, and what to worry about."""

    state: str
    headline: str
    sentences: list[str]
    rows: list[tuple[str, str]]
    warnings: list[str]


def short(value: Any, most: int = _MOST_CHARACTERS) -> str:
    """Text of a value that fits a table."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def machine_name(last: Any) -> str:
    """The machine as people know it."""
    if hasattr(last, "prototype_classes_"):
        return "Multi-prototype SVM"
    if hasattr(last, "eta_"):
        return "Convex-hull SVM (AD-SVM)"
    if hasattr(last, "machine"):
        return f"{find_machine(last.machine).title.partition(' (')[0]} machine"
    return type(last).__name__


# -- what was trained --------------------------------------------------------------------------


def describe(
    parts: Parts, X: Any, X_train: Any = None, seconds: float | None = None
) -> list[tuple[str, str]]:
    """Rows of the first table of a report."""
    last = parts.last
    rows = [("Machine", _machine_sentence(last))]
    kernel = _kernel_sentence(last)
    if kernel:
        rows.append(("Kernel", kernel))
    strength = _strength_sentence(last)
    if strength:
        rows.append(strength)
    if parts.steps:
        steps = [step for pipeline in parts.steps for _, step in pipeline.steps]
        rows.append(("Steps before it", ", then ".join(_step_words(step) for step in steps)))
    for search in parts.searches:
        chosen = ", ".join(f"{name} = {value}" for name, value in search.best_params_.items())
        rows.append((f"Chosen by {type(search).__name__}", short(chosen, 200)))
    rows.append(("Trained on", _training_sentence(last, X_train)))
    rows.append(("Measured on", _table_size(X, "column" if _columns(parts) else "feature")))
    rows.append(("Classes", _class_list(last.classes_)))
    clock = _time_sentence(last, seconds)
    if clock:
        rows.append(("Training time", clock))
    rows.append(
        (
            "Software",
            f"polymargin {__version__}, scikit-learn {version('scikit-learn')}, "
            f"NumPy {version('numpy')}, Python {platform.python_version()}",
        )
    )
    return rows


def _columns(parts: Parts) -> list[tuple[str, str, Any]]:
    """Name, kind and form of the columns of a raw table that the model takes; empty if none."""
    for pipeline in parts.steps:
        first = pipeline.steps[0][1]
        if isinstance(first, TableColumns):
            return list(first.columns)
    return []


def takes_words(parts: Parts) -> bool:
    """Whether columns of categories or texts are among those that the model takes."""
    return any(kind in ("category", "text") for _, kind, _ in _columns(parts))


def _step_words(step: Any) -> str:
    if isinstance(step, TableColumns):
        names = [f"{short(name, 24)} ({kind})" for name, kind, _ in step.columns[:_MOST_COLUMNS]]
        more = len(step.columns) - len(names)
        return "columns of a table: " + ", ".join(names) + (f" and {more} more" if more else "")
    if isinstance(step, ColumnTransformer):
        kinds = {"numbers": "numbers filled and scaled", "categories": "a feature per category"}
        found = [kinds.get(name.split()[0], "tf-idf of words") for name, _, _ in step.transformers]
        return ", ".join(dict.fromkeys(found)) if _is_planned(step) else short(step, 90)
    return short(step, 90)


def _is_planned(step: Any) -> bool:
    """Whether a ColumnTransformer is that of a plan of columns."""
    return {name.split()[0] for name, _, _ in step.transformers} <= {
        "numbers",
        "categories",
        "text",
    }


def _machine_sentence(last: Any) -> str:
    name = machine_name(last)
    if hasattr(last, "prototype_classes_"):
        total, alive = len(last.alive_), int(last.alive_.sum())
        kind = "linear prototypes" if hasattr(last, "prototypes_") else "prototypes"
        return f"{name}: {total} {kind} in all, {alive} of them win training examples"
    if hasattr(last, "eta_"):
        return f"{name}: one prototype per class in the reduced convex hull of its examples"
    if hasattr(last, "machine"):
        return f"{name}: one prototype per class, trained together"
    return name


def _kernel_sentence(last: Any) -> str:
    kernel = getattr(last, "_kernel", None)
    if kernel is None:
        return ""
    terms = [f"{beta:.4g} {_with_parameters(part)}" for beta, part in kernel.parts]
    text = " + ".join(terms) if terms else _with_parameters(kernel)
    if hasattr(last, "support_"):
        kind = "support vectors" if getattr(last, "landmarks", None) is None else "landmarks"
        text += f"; {len(last.support_):,} {kind}"
    return text


def _with_parameters(kernel: Any) -> str:
    """The name of a kernel with the parameters that it has."""
    gamma = np.asarray(kernel.gamma, dtype=float)
    width = f"gamma = {gamma.max():.4g}"
    if gamma.ndim:
        width = f"gamma from {gamma.min():.4g} to {gamma.max():.4g}, one per feature"
    settings = {
        "linear": "",
        "rbf": width,
        "poly": f"{width}, degree = {kernel.degree:g}, coef0 = {kernel.coef0:g}",
        "sigmoid": f"{width}, coef0 = {kernel.coef0:g}",
    }.get(kernel.name, "")
    return f"{kernel.name} ({settings})" if settings else str(kernel.name)


def _strength_sentence(last: Any) -> tuple[str, str] | None:
    if hasattr(last, "results_"):
        tried = len(last.results_["error"])
        return "Regularisation", (
            f"C = {last.C_:.4g} and {last.n_prototypes_} prototypes per class, the best of {tried} "
            "pairs in cross-validation on the training data"
        )
    if hasattr(last, "eta_"):
        return "Largest weight", f"eta = {last.eta_:.4g} of one example in its class's prototype"
    C = getattr(last, "C", None)
    if C is None:
        return None
    text = "C = ∞: hard margin" if np.isinf(C) else f"C = {C:.4g}"
    if getattr(last, "class_weight", None) is not None:
        text += f", class weights {short(last.class_weight)}"
    return "Regularisation", text


def _training_sentence(last: Any, X_train: Any) -> str:
    if X_train is not None:
        return _table_size(X_train)
    count = None
    for name in ("assignment_", "weights_"):
        if hasattr(last, name):
            count = len(getattr(last, name))
    count = getattr(last, "_n_train", count)
    features = getattr(last, "n_features_in_", None)
    words = [] if count is None else [f"{count:,} examples"]
    precomputed = getattr(getattr(last, "_kernel", None), "name", "") == "precomputed"
    if features is not None and not precomputed:
        words.append(f"{features:,} features")
    return ", ".join(words) or "unknown"


def _table_size(X: Any, what: str = "feature") -> str:
    n, d = X.shape
    text = f"{n:,} example{'s' * (n != 1)}, {d:,} {what}{'s' * (d != 1)}"
    if sp.issparse(X):
        filled = 100.0 * X.nnz / max(1, X.shape[0] * X.shape[1])
        text += f", sparse ({filled:.2g} % of the entries are stored)"
    return text


def _class_list(classes: np.ndarray) -> str:
    names = [short(str(label), 24) for label in classes[:_MOST_CLASSES]]
    more = f", … and {len(classes) - _MOST_CLASSES} more" if len(classes) > _MOST_CLASSES else ""
    return f"{len(classes)}: " + ", ".join(names) + more


def _time_sentence(last: Any, seconds: float | None) -> str:
    if seconds is not None:
        return duration(seconds)
    history = getattr(last, "history_", None)
    if not history or not len(history.get("seconds", ())):
        return ""
    what = " for the final fit" if hasattr(last, "best_estimator_") else ""
    return f"{duration(float(history['seconds'][-1]))}{what}, by the solver's clock"


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 1.0:
        return f"{1000.0 * seconds:.3g} ms"
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def parameter_rows(last: Any) -> list[tuple[str, str, bool]]:
    """Name, value and whether it differs from the default, of every parameter."""
    if not isinstance(last, BaseEstimator):
        return []
    given: Mapping[str, Any] = last.get_params(deep=False)
    try:
        usual: Mapping[str, Any] = type(last)().get_params(deep=False)
    except TypeError:
        usual = {}
    return [
        (name, short(value), name in usual and repr(value) != repr(usual[name]))
        for name, value in given.items()
    ]


# -- what is proven ----------------------------------------------------------------------------

_ADVICE = {
    "max_iter": "Increase max_iter or tol, or scale the features.",
    "max_time": "Increase max_time or tol.",
    "interrupted": "Fit again for a finished model.",
    "stalled": "Increase tol, scale the features, or use a smaller C.",
    "not_separable": "Use a finite C or a richer kernel.",
    "hulls_meet": "Use a smaller eta or another kernel.",
}
_SPEAKS_OF_TRAINING = (
    "A certificate speaks of training, of how close the model is to the best value of its "
    "training objective; it says nothing about accuracy on new data."
)


def certificate_in_words(last: Any) -> Proof:
    """The certificate of a fitted classifier."""
    certificate = getattr(last, "certificate_", None)
    if certificate is None:
        sentence = (
            "This model carries no certificate: nothing is known of its distance to the best."
        )
        return Proof("unknown", "no certificate", [sentence], [], [])
    status = getattr(last, "status_", "")
    headline, sentence = _bounds(certificate, hasattr(last, "eta_"))
    sentences, warnings = [sentence], []
    if hasattr(last, "prototype_classes_"):
        sentences = _alternation(last, sentence)
    gap = float(certificate.relative_gap)
    tol = float(getattr(getattr(last, "best_estimator_", last), "tol", 0.0))
    end = ending(status, gap, tol)
    if end is not None:
        sentences.append(end)
    if status in ("max_iter", "max_time", "stalled"):
        is_hard = bool(np.isinf(getattr(last, "C", 0.0)))
        warnings.append(unfinished(status, gap, tol, _ADVICE[status], is_hard))
    elif status in _ADVICE:
        warnings.append(f"{end} {_ADVICE[status]}")
    if certificate.kernel_psd is False:
        headline = "proves nothing"
        sentences = [
            "The kernel is not positive semi-definite, so the duality gap proves nothing here.",
            *sentences[1:],
        ]
        warnings.append(
            "The kernel is not positive semi-definite: use another one, or shift its spectrum."
        )
    elif certificate.kernel_psd is None:
        sentences.append(
            "The bounds hold if the kernel is positive semi-definite, which was not checked "
            "(the matrix is too large)."
        )
    if hasattr(last, "alive_") and not last.alive_.all():
        dead = int((~last.alive_).sum())
        sentences.append(
            f"{dead} of {len(last.alive_)} prototypes win no training example; prune() would "
            "train a smaller model without them."
        )
    sentences.append(_SPEAKS_OF_TRAINING)
    state = "good" if status == "converged" and certificate.kernel_psd is not False else "bad"
    return Proof(state, headline, sentences, _figures(last, certificate, status), warnings)


def _bounds(certificate: Any, is_hull: bool) -> tuple[str, str]:
    primal, dual = certificate.primal, certificate.dual
    what = "sum of squared distances between prototypes" if is_hull else "objective"
    if not np.isfinite(primal) or not np.isfinite(dual):
        return "unknown", (
            f"No upper bound was established: the best possible {what} is at least "
            f"{_digits(dual, dual)[0]}, but how far this model is above it is not known."
        )
    low, high = _digits(dual, primal)
    between = f"The best possible {what} lies between {low} and {high}"
    gap = max(primal - dual, 0.0)
    if dual > 0.0:
        above = rounded_up(100.0 * gap / dual)
        above += "\N{NO-BREAK SPACE}%"
        return f"≤ {above}", f"{between}: the model is at most {above} above it."
    distance = rounded_up(gap)
    return f"≤ {distance}", f"{between}: the model is at most {distance} above it."


def _alternation(last: Any, sentence: str) -> list[str]:
    fixed = (
        "This holds for the assignment of training examples to prototypes that training ended "
        "with. The best assignment is not a convex problem: it is searched for, not proven; "
    )
    if getattr(last, "stationary_", False):
        fixed += "no example would do better with another prototype of its class."
    else:
        fixed += "some examples would still do better with another prototype of their class."
    return [sentence, fixed]


def _figures(last: Any, certificate: Any, status: str) -> list[tuple[str, str]]:
    low, high = _digits(certificate.dual, certificate.primal)
    rows = [
        ("Value of this model (primal)", high),
        ("Proven lower bound (dual)", low),
        ("Relative duality gap", f"{certificate.relative_gap:.2e}"),
        ("Gap asked for (tol)", f"{getattr(getattr(last, 'best_estimator_', last), 'tol', 0):g}"),
        ("Status", status.replace("_", " ")),
        ("Iterations", f"{getattr(last, 'n_iter_', 0):,}"),
    ]
    if hasattr(last, "energy_"):
        rows.insert(0, ("Energy", f"{last.energy_:.8g}"))
    return [(name, "unknown" if value in ("inf", "nan") else value) for name, value in rows]


def _digits(low: float, high: float) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to tell them apart."""
    for digits in range(6, 13):
        texts = f"{low:.{digits}g}", f"{high:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def rounded_up(value: float) -> str:
    """Two significant digits, never less than the value."""
    if not value > 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    upper = math.ceil(value / unit * (1.0 - 1e-12)) * unit
    return f"{upper:,.0f}" if upper >= 100.0 else f"{upper:.2g}"
