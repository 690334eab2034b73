"""A fitted model in words and as a record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polymargin.cli.messages import size_text, table
from polymargin.cli.single_fit import model_bytes

__all__ = ["certificate_words", "model_record", "model_text"]


def parts_of(model: Any) -> tuple[Any, Any]:
    """The classifier of a model and the step in front of it, if there is one.

    A calibrated model may hold one classifier per fold; of these it is the one with the largest
    duality gap, so that its bound holds for all.
    """
    scaler = None
    while True:
        if hasattr(model, "steps"):
            scaler = scaler or (model.steps[0][1] if len(model.steps) > 1 else None)
            model = model.steps[-1][1]
        elif hasattr(model, "calibrated_classifiers_"):
            copies = [one.estimator for one in model.calibrated_classifiers_]
            model = max(copies, key=_gap)
        elif hasattr(model, "best_estimator_") and not hasattr(model, "intercept_"):
            model = model.best_estimator_
        elif type(model).__name__ == "FrozenEstimator":
            model = model.estimator
        else:
            return model, scaler


def _gap(model: Any) -> float:
    certificate = getattr(parts_of(model)[0], "certificate_", None)
    return 0.0 if certificate is None else float(certificate.relative_gap)


def calibration_of(model: Any) -> dict[str, Any] | None:
    """Method and number of classifiers of a calibrated model; None of any other."""
    while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        model = model.steps[-1][1] if hasattr(model, "steps") else model.best_estimator_
    if not hasattr(model, "calibrated_classifiers_"):
        return None
    return {"method": model.method, "classifiers": len(model.calibrated_classifiers_)}


def _kernel_text(classifier: Any) -> Any:
    """The parameter; a sum of kernels as its weights and names."""
    parts = getattr(getattr(classifier, "_kernel", None), "parts", ())
    if not parts:
        return getattr(classifier, "kernel", None)
    if classifier._kernel.name == "each":
        return " | ".join(part.name for _, part in parts) + " by prototype,"
    return " + ".join(f"{beta:.4g} {part.name}" for beta, part in parts)


def model_record(model: Any) -> dict[str, Any]:
    """Record of the model: machine, parameters, certificate, sizes."""
    classifier, scaler = parts_of(model)
    machine = getattr(classifier, "machine", None)
    record: dict[str, Any] = {
        "estimator": type(classifier).__name__,
        "machine": getattr(machine, "name", machine),
        "kernel": _kernel_text(classifier),
        "scale": None if scaler is None else type(scaler).__name__,
        "classes": getattr(classifier, "classes_", np.empty(0)),
        "n_features": getattr(model, "n_features_in_", None),
        "parameters": _parameters(classifier),
        "calibration": calibration_of(model),
    }
    if hasattr(classifier, "prototype_classes_"):
        record["n_prototypes"] = len(classifier.prototype_classes_)
        record["n_alive"] = int(np.sum(classifier.alive_))
        record["energy"] = float(classifier.energy_)
        record["stationary"] = bool(classifier.stationary_)
    if hasattr(classifier, "eta_"):
        record["eta"] = float(classifier.eta_)
    if hasattr(classifier, "support_"):
        has_landmarks = getattr(classifier, "landmarks", None) is not None
        record["n_landmarks" if has_landmarks else "n_support"] = len(classifier.support_)
    if hasattr(classifier, "intercept_"):
        record["prediction_bytes"] = model_bytes(classifier)
    if hasattr(classifier, "certificate_"):
        certificate = classifier.certificate_
        record["status"] = classifier.status_
        record["n_iter"] = int(classifier.n_iter_)
        record["certificate"] = {
            "primal": float(certificate.primal),
            "dual": float(certificate.dual),
            "gap": float(certificate.gap),
            "relative_gap": float(certificate.relative_gap),
            "kernel_psd": certificate.kernel_psd,
        }
    return record


CERTIFICATE_MEANING = "(how exactly the training problem was solved, not how accurate the model is)"

_SHOWN = (
    "machine C kernel gamma degree coef0 intercept intercept_scaling eta eta_scale n_prototypes "
    "tol class_weight assignment annealing metric n_restarts random_state"
)


def _parameters(classifier: Any) -> dict[str, Any]:
    known = classifier.get_params(deep=False)
    found = {name: known.get(name) for name in _SHOWN.split()}
    return {name: value for name, value in found.items() if value is not None}


def certificate_words(record: dict[str, Any]) -> str:
    """The certificate in one line."""
    certificate = record.get("certificate")
    if certificate is None:
        return "none"
    primal, dual = certificate["primal"], certificate["dual"]
    if not np.isfinite(primal):
        return f"unknown gap ({record['status']})"
    if primal > 0 >= dual:
        return f"no bound yet ({record['status']}): the objective is {primal:.6g}, dual {dual:.6g}"
    excess = certificate["gap"] / dual if dual > 0 else 0.0
    which = "for this assignment to prototypes " if "energy" in record else ""
    return (
        f"{which}at most {rounded_up(100 * excess)} % above the best possible objective "
        f"({record['status']}): it lies between {dual:.6g} and {primal:.6g}"
    )


def rounded_up(value: float) -> str:
    """Three digits, rounded up so that the printed bound holds."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.3g}"


def title_of(record: dict[str, Any]) -> str:
    """The machine in words."""
    from polymargin.cli.machine_setup import MACHINES

    kernel = f"{record['kernel']} kernel"
    if record.get("calibration") is not None:
        kernel += f", probabilities calibrated ({record['calibration']['method']})"
    if "n_prototypes" in record:
        alive = f", {record['n_alive']} of {record['n_prototypes']} prototypes in use"
        return f"{MACHINES['MP']}, {kernel}{alive}"
    if record["estimator"] == "ConvexHullSVC":
        return f"{MACHINES['HULL']}, {kernel}"
    name = str(record["machine"])
    return f"{MACHINES.get(name.upper(), name)}, {kernel}"


def labels_text(labels: Any) -> str:
    """Some labels."""
    shown = ", ".join(str(label) for label in list(labels)[:10])
    return shown + (", ..." if len(labels) > 10 else "")


def eta_words(record: dict[str, Any]) -> str:
    """The eta of a convex-hull machine, with the relative value that it was computed from."""
    given = record["parameters"]
    relative = f" (relative eta {given['eta']:.4g})" if given["eta_scale"] == "relative" else ""
    return f"{record['eta']:.4g}{relative}"


def _parameter_words(record: dict[str, Any]) -> str:
    told = ("eta", "eta_scale") if "eta" in record else ()
    return ", ".join(f"{k}={v}" for k, v in record["parameters"].items() if k not in told)


def _scaling_words(record: dict[str, Any]) -> str:
    if record["scale"] != "TableColumns":
        return record["scale"] or "none"
    return "takes a raw table: numbers filled and scaled, categories and words as features"


def _copies_row(record: dict[str, Any]) -> list[list[str]]:
    calibration = record.get("calibration")
    if calibration is None or calibration["classifiers"] == 1:
        return []
    number = calibration["classifiers"]
    return [["classifiers", f"{number}, one per fold; what follows is of the one least exact"]]


def model_text(record: dict[str, Any], header: dict[str, Any]) -> str:
    """What ``info`` prints."""
    names = header.get("feature_names")
    rows = [
        ["model", title_of(record)],
        ["classes", f"{len(record['classes'])}: {labels_text(record['classes'])}"],
        ["features", str(record["n_features"]) + ("" if not names else f": {labels_text(names)}")],
        ["scaling", _scaling_words(record)],
        *_copies_row(record),
        ["certificate", certificate_words(record)],
        ["", CERTIFICATE_MEANING],
    ]
    if "eta" in record:
        rows.append(["eta", eta_words(record)])
    if "energy" in record:
        rows.append(["energy", f"{record['energy']:.8g}"])
    if "n_support" in record:
        rows.append(["support vectors", str(record["n_support"])])
    if header.get("trained_rows") is not None:
        rows.append(["trained on", f"{header['trained_rows']} rows"])
    if "prediction_bytes" in record:
        rows.append(["for prediction", size_text(record["prediction_bytes"])])
    rows += [
        ["parameters", _parameter_words(record)],
        [
            "file",
            f"format {header['format']}, written by polymargin {header['library']}, "
            f"{size_text(header['file_bytes'])}",
        ],
        ["checksum", f"SHA-256 {header['checksum']}"],
    ]
    return table(rows)
