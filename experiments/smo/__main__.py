"""The command line: ``python -m experiments.smo [--quick] [--digits] [--seconds 120]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.smo.data import Digits, load
from experiments.smo.figures import draw
from experiments.smo.findings import Finding, check, comparison
from experiments.smo.study import Curve, Member, Setting, choose, members, run

DEFAULT_OUTPUT = Path(__file__).parent / "results"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.smo", description=__doc__)
    parser.add_argument("--digits", action="store_true", help="scikit-learn's digits, not MNIST")
    parser.add_argument("--examples", type=int, help="at most so many training examples")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of every run")
    parser.add_argument("--repeats", type=int, default=1, help="the best of so many runs counts")
    parser.add_argument("--tol", type=float, default=1e-3, help="relative gap at which runs end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few digits: a smoke test")
    parser.add_argument("--redraw", action="store_true", help="figures of the stored curves")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    return parser.parse_args(arguments)


def test_kernel(digits: Digits, gamma: float) -> np.ndarray:
    """Kernel values (test, training) in float32."""
    A, B = digits.X_test.astype(np.float32), digits.X_train.astype(np.float32)
    square = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1)[None, :] - 2.0 * (A @ B.T)
    return np.asarray(np.exp(-np.float32(gamma) * np.maximum(square, 0.0)))


def caption_of(digits: Digits, setting: Setting) -> str:
    return (
        f"{digits.name}, {len(digits.y_train)} training and {len(digits.y_test)} test examples, "
        f"RBF with gamma = {setting.gamma:g}, C = {setting.C:g} (validation on a fifth of the "
        f"training part: {100 * setting.validation_error:.1f} % wrong), tol = {setting.tol:g}"
    )


def as_json(curves: dict[str, Curve], setting: Setting, caption: str, n: int) -> dict[str, Any]:
    def plain(values: np.ndarray) -> list[float]:
        return [float(f"{value:.6g}") for value in values]

    return {
        "caption": caption,
        "training_examples": n,
        "setting": asdict(setting),
        "curves": {
            key: {
                "status": curve.status,
                "relative_gap": curve.relative_gap,
                "support_vectors": curve.support_vectors,
                "history": {name: plain(column) for name, column in curve.columns.items()},
                "error_seconds": plain(curve.error_seconds),
                "test_error": plain(curve.errors),
            }
            for key, curve in curves.items()
        },
    }


def from_json(content: dict[str, Any]) -> dict[str, Curve]:
    """The curves of an earlier run."""
    wanted = members_by_key(content["training_examples"])
    return {
        key: Curve(
            wanted[key],
            found["status"],
            found["relative_gap"],
            found["support_vectors"],
            {name: np.array(column) for name, column in found["history"].items()},
            np.array(found["error_seconds"]),
            np.array(found["test_error"]),
        )
        for key, found in content["curves"].items()
    }


def members_by_key(n: int) -> dict[str, Member]:
    return {member.key: member for group in members(n).values() for member in group}


def as_markdown(curves: dict[str, Curve], findings: list[Finding], caption: str) -> str:
    def cell(seconds: float) -> str:
        return f"{seconds:.2f}" if np.isfinite(seconds) else "-"

    lines = [
        "# The SMO-like family on digits", "", caption + ".", "", "## Findings of the papers", "",
        *(f"- {finding}" for finding in findings), "", "## Seconds", "",
        "| curve | rows | 99 % | 99.9 % | 99.99 % | tol | ended | kernel rows | patterns | "
        "test error % |",
        "|---|---:|---:|---:|---:|---:|---|---:|---:|---:|",
    ]  # fmt: skip
    for (label, rows, status, seconds), curve in zip(
        comparison(curves), curves.values(), strict=True
    ):
        counts = [
            f"{int(curve.columns[name][-1])}" if name in curve.columns else ""
            for name in ("kernel_rows", "patterns")
        ]
        cells = " | ".join(map(cell, seconds))
        lines.append(
            f"| {label} | {rows} | {cells} | {status} | {counts[0]} | {counts[1]} | "
            f"{curve.errors[-1]:.2f} |"
        )
    lines += [
        "",
        "Seconds until the dual value was within 1, 0.1 and 0.01 % of the optimal one, and until "
        "the relative gap was below tol (without the final certificate): processor time of one "
        "thread, the best of the repeats check by check.",
    ]
    return "\n".join(lines) + "\n"


def run_all(given: argparse.Namespace) -> dict[str, Any]:
    """All runs, each told of as it ends; what is written to curves.json."""
    digits = load(given.digits or given.quick, 300 if given.quick else given.examples, given.seed)
    n = len(digits.y_train)
    setting = replace(
        choose(digits, given.seed),
        seconds=given.seconds, repeats=1 if given.quick else given.repeats, tol=given.tol,
    )  # fmt: skip
    caption = caption_of(digits, setting)
    print(caption, flush=True)
    K = test_kernel(digits, setting.gamma)
    wanted = members_by_key(n)
    for member in list(wanted.values())[-2:]:  # compiled code gets loaded
        run(member, replace(setting, seconds=3.0, repeats=1), digits, K)
    curves: dict[str, Curve] = {}
    for key, member in wanted.items():
        curves[key] = curve = run(member, setting, digits, K, given.seed)
        print(
            f"{key}: {curve.status}, gap {curve.relative_gap:.1e}, "
            f"{curve.columns['seconds'][-1]:.2f} s, test error {curve.errors[-1]:.2f} %",
            flush=True,
        )
    return as_json(curves, setting, caption, n)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    path = given.output / "curves.json"
    if not given.redraw:
        content = json.dumps(run_all(given))
        path.write_text(content + "\n", encoding="utf-8")
    content = json.loads(path.read_text(encoding="utf-8"))
    curves, caption = from_json(content), content["caption"]
    for name, group in members(content["training_examples"]).items():
        draw(name, group, curves, caption, given.output / f"{name}.png")
    sizes = {curve.member.rows for curve in curves.values()}
    findings = check(curves, min(sizes), max(sizes))
    text = as_markdown(curves, findings, caption)
    (given.output / "report.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
