"""``python -m polymargin.demo``: train, certify, evaluate and compare on scikit-learn's digits."""

from __future__ import annotations

import pickle
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, LinearSVC

from polymargin.estimators import MulticlassSVC
from polymargin.multi_prototype import MultiPrototypeSVC

__all__ = ["main"]


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


def _row(name: str, model: Any, data: tuple[np.ndarray, ...]) -> str:
    X_train, X_test, y_train, y_test = data
    with warnings.catch_warnings():
        # LinearSVC(crammer_singer) warns of an iteration limit that its solver never sees
        warnings.simplefilter("ignore")
        fit_seconds, _ = _timed(lambda: model.fit(X_train, y_train))
    predict_seconds, predicted = _timed(lambda: model.predict(X_test), repeats=5)
    error = 100.0 * float(np.mean(predicted != y_test))
    certificate = getattr(model, "certificate_", None)
    gap = f"{certificate.relative_gap:.1e}" if certificate else "-"
    return (
        f"{name:<42}{error:>8.2f}{gap:>10}{_model_bytes(model) / 1024:>10.1f}"
        f"{1e3 * fit_seconds:>10.1f}{1e6 * predict_seconds / len(y_test):>12.2f}"
    )


def main() -> None:
    """Run the comparison and print one table."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    data = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    print(f"digits: {len(data[0])} training and {len(data[1])} test images, 10 classes\n")
    for kernel in ("linear", "rbf"):
        MulticlassSVC(kernel=kernel, random_state=0).fit(data[0][::10], data[2][::10])  # compile
    print(
        f"{'model':<42}{'error %':>8}{'gap':>10}{'kB':>10}{'fit ms':>10}{'us/predict':>12}\n"
        + "-" * 92
    )
    MultiPrototypeSVC(2, random_state=0).fit(data[0][::10], data[2][::10])
    linear = MulticlassSVC(C=0.1, random_state=0)
    prototypes = MultiPrototypeSVC(5, C=0.3, random_state=0)
    kernel = MulticlassSVC(kernel="rbf", C=10.0, random_state=0)
    rows: list[tuple[str, Any]] = [
        ("polymargin Crammer-Singer, linear", linear),
        ("LinearSVC(crammer_singer)", LinearSVC(multi_class="crammer_singer", C=0.1)),
        ("LinearSVC (one-vs-rest)", LinearSVC(C=0.1)),
        ("polymargin, 5 linear prototypes per class", prototypes),
        ("polymargin Crammer-Singer, RBF", kernel),
        ("SVC, RBF (one-vs-one)", SVC(C=10.0)),
    ]
    for name, model in rows:
        print(_row(name, model, data), flush=True)
    certificate = linear.certificate_
    print(
        f"\nCertificate of the linear model: the best possible objective lies between "
        f"{certificate.dual:.6g} and {certificate.primal:.6g};\nthe model is at most "
        f"{100 * certificate.relative_gap:.3f} % above it ({linear.status_} after "
        f"{linear.n_iter_} passes, {len(pickle.dumps(linear)) / 1024:.0f} kB pickled with its "
        f"{len(linear.support_)} support vectors)."
    )
    print(
        f"Multi-prototype model: energy {prototypes.energy_:.6g}, {prototypes.alive_.sum()} of "
        f"{len(prototypes.alive_)} prototypes win training images; no reassignment improves: "
        f"{'yes' if prototypes.stationary_ else 'no'}."
    )


if __name__ == "__main__":
    main()
