"""The table: measured accuracies beside the printed ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.hulls.study import MACHINES

__all__ = ["PRINTED", "as_markdown"]

# Accuracy, hard and soft, in the order of MACHINES, as printed.
PRINTED = {
    "iris": ((0.950, 0.950), (0.933, 0.933), (0.933, 0.933)),
    "wine": ((0.994, 0.994), (0.994, 0.994), (0.994, 0.994)),
    "soybean": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "waveform": ((0.838, 0.843), (0.818, 0.843), (0.815, 0.843)),
    "ecoli": ((0.737, 0.793), (0.763, 0.848), (0.785, 0.844)),
}


def as_markdown(results: dict[str, dict[str, Any]]) -> str:
    """One line per set, machine and margin, then how it was done."""
    lines = [
        "# AD-SVM, one-vs-rest and one-vs-one with the same kernel",
        "",
        "| set | examples | machine | margin | accuracy, printed | mean | spread | splits | "
        "search [s] |",
        "|---|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, result in results.items():
        for machine, printed in zip(MACHINES, PRINTED[name], strict=True):
            for margin, known in zip(("hard", "soft"), printed, strict=True):
                runs = [
                    run
                    for run in result["runs"]
                    if run["machine"] == machine and run["margin"] == margin
                ]
                if not runs:
                    continue
                found = np.array([run["accuracy"] for run in runs])
                seconds = np.mean([run["seconds"] for run in runs])
                spread = found.std(ddof=1) if len(found) > 1 else float("nan")
                lines.append(
                    f"| {name} | {result['examples']} | {machine} | {margin} | {known:.3f} | "
                    f"{found.mean():.3f} | {spread:.3f} | {len(runs)} | {seconds:.1f} |"
                )
    lines += [
        "",
        "Mean and standard deviation of the test accuracy over random splits (20 % test; the split "
        "of the paper is unknown). Search: mean seconds of the cross-validation (all folds, the "
        "whole grid; hard: its column eta = 1) on one thread. The times of the paper are not at "
        "hand and so not in the table.",
    ]
    return "\n".join(lines) + "\n"
