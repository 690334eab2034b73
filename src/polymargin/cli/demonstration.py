"""``polymargin demo``: train, certify, evaluate and compare on scikit-learn's digits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, LinearSVC

from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC

__all__ = ["main", "run"]

_HEADINGS = f"{'model':<42}{'error %':>9}{'bytes':>10}{'us/predict':>12}{'fit ms':>9}{'gap':>10}"


def _timed(work: Any, repeats: int = 1) -> tuple[float, Any]:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds)), result


def _model_bytes(model: Any) -> int:
    """What prediction needs: coefficients of a linear model, support vectors of a kernel one."""
    if hasattr(model, "prototypes_"):
        return int(model.prototypes_.nbytes + model.intercept_.nbytes)
    if getattr(model, "kernel", "linear") == "linear":
        return int(model.coef_.nbytes + model.intercept_.nbytes)
    return int(model.support_vectors_.nbytes + np.asarray(model.dual_coef_).nbytes)


def _row(name: str, model: Any, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    X_train, X_test, y_train, y_test = data
    with warnings.catch_warnings():
        # LinearSVC(crammer_singer) warns of an iteration limit that its solver never sees
        warnings.simplefilter("ignore")
        fit_seconds, _ = _timed(lambda: model.fit(X_train, y_train))
    predict_seconds, predicted = _timed(lambda: model.predict(X_test), repeats=9)
    certificate = getattr(model, "certificate_", None)
    return {
        "model": name,
        "error": float(np.mean(predicted != y_test)),
        "model_bytes": _model_bytes(model),
        "microseconds_per_prediction": 1e6 * predict_seconds / len(y_test),
        "fit_seconds": fit_seconds,
        "relative_gap": None if certificate is None else float(certificate.relative_gap),
    }


def _line(row: dict[str, Any]) -> str:
    gap = "-" if row["relative_gap"] is None else f"{row['relative_gap']:.1e}"
    return (
        f"{row['model']:<42}{100 * row['error']:>9.2f}{row['model_bytes']:>10}"
        f"{row['microseconds_per_prediction']:>12.2f}{1e3 * row['fit_seconds']:>9.1f}{gap:>10}"
    )


def run(page: str | None, say: Callable[[str], None] = print, show: bool = True) -> dict[str, Any]:
    """Run the comparison; print a table if asked; write a page about the multi-prototype model.

    Parameters
    ----------
    page : str or None
        HTML file to write.
    say : callable
        Gets messages.
    show : bool
        Whether the table is printed to standard output.

    Returns
    -------
    dict
        ``rows`` of the table, and what else was found.
    """
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    data = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    say(f"digits: {len(data[0])} training and {len(data[1])} test images, 10 classes")
    for kernel in ("linear", "rbf"):  # compile before anything is timed
        MulticlassSVC(kernel=kernel, random_state=0).fit(data[0][::10], data[2][::10])
    MultiPrototypeSVC(2, random_state=0).fit(data[0][::10], data[2][::10])
    prototypes = MultiPrototypeSVC(5, C=0.3, random_state=0)
    models: list[tuple[str, Any]] = [
        ("polymargin, 5 linear prototypes per class", prototypes),
        ("polymargin Crammer-Singer, linear", MulticlassSVC(C=0.1, random_state=0)),
        ("LinearSVC(crammer_singer)", LinearSVC(multi_class="crammer_singer", C=0.1)),
        ("LinearSVC (one-vs-rest)", LinearSVC(C=0.1)),
        ("polymargin Crammer-Singer, RBF", MulticlassSVC(kernel="rbf", C=10.0, random_state=0)),
        ("SVC, RBF (one-vs-one)", SVC(C=10.0)),
    ]
    if show:
        print(f"\n{_HEADINGS}\n{'-' * len(_HEADINGS)}")
    rows = []
    for name, model in models:
        rows.append(_row(name, model, data))
        if show:
            print(_line(rows[-1]), flush=True)
    found = {"rows": rows, "energy": prototypes.energy_, "page": page}
    if show:
        print(f"\n{_words(prototypes)}")
    if page is not None:
        _write_page(prototypes, data, page, rows[0]["fit_seconds"])
        say(f"written: {page}")
    return found


def _words(model: MultiPrototypeSVC) -> str:
    certificate = model.certificate_
    gap = 1e-3 * np.ceil(1e5 * certificate.relative_gap)
    moves = "no reassignment improves it" if model.stationary_ else "reassignments may improve it"
    return (
        f"Certificate of the multi-prototype model: with its assignment of images to prototypes\n"
        f"the best possible objective lies between {certificate.dual:.6g} and "
        f"{certificate.primal:.6g},\nat most {gap:.3f} % below this "
        f"model; {moves};\n"
        f"{model.alive_.sum()} of {len(model.alive_)} prototypes win training images."
    )


def _write_page(
    model: MultiPrototypeSVC, data: tuple[np.ndarray, ...], page: str, seconds: float
) -> None:
    from polymargin.report.page import write_report

    X_train, X_test, y_train, y_test = data
    write_report(
        model,
        X_test,
        y_test,
        page,
        title="Handwritten digits, 5 prototypes per class",
        X_train=X_train,
        y_train=y_train,
        seconds=seconds,
    )


def main() -> None:
    """Run the comparison, print the table, write ``polymargin-demo.html``."""
    run("polymargin-demo.html")


if __name__ == "__main__":
    main()
