"""Exported models run by others: onnxruntime, a C compiler, a reader of JSON in plain Python."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from polymargin.export import ExportModel, to_c, to_onnx

FLAGS = [
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wdouble-promotion",
    "-Wshadow",
    "-Werror",
]

MAIN = """
#include <stdio.h>
#include "%(name)s.h"

int main(void)
{
    static float x[%(d)d];
    static float scores[%(Q)d];
    while (fread(x, sizeof(float), %(d)d, stdin) == %(d)d) {
        const int c = %(name)s_scores(x, scores);
        if (c != %(name)s_predict(x)) return 3;
        fwrite(&c, sizeof c, 1, stdout);
        fwrite(scores, sizeof(float), %(Q)d, stdout);
    }
    return 0;
}
"""


def compiler(name="gcc"):
    found = shutil.which(name) or (shutil.which("cc") if name == "gcc" else None)
    if found is None:
        pytest.skip(f"no C compiler: {name} is not installed")
    return found


def run_c(model, X, folder, dtype="float32", name="polymargin_model", options=("-O2",)):
    """Class numbers and scores of a compiled header."""
    gcc = compiler()
    record = ExportModel.from_estimator(model)
    folder = Path(folder)
    to_c(record, folder / f"{name}.h", dtype=dtype, name=name)
    values = {"name": name, "d": record.n_features, "Q": record.n_classes}
    (folder / "main.c").write_text(MAIN % values)
    program = folder / "main"
    build = [gcc, *FLAGS, *options, "-o", str(program), str(folder / "main.c"), "-lm"]
    subprocess.run(build, check=True, timeout=60)
    data = np.ascontiguousarray(X, dtype=np.float32).tobytes()
    out = subprocess.run([str(program)], input=data, capture_output=True, check=True, timeout=60)
    kind = [("c", np.int32), ("s", np.float32, (record.n_classes,))]
    rows = np.frombuffer(out.stdout, dtype=kind)
    return rows["c"], rows["s"]


def run_onnx(model, X, **options):
    """Labels and scores of onnxruntime; ``model`` may be a graph that is ready."""
    runtime = pytest.importorskip("onnxruntime")
    proto = model if hasattr(model, "SerializeToString") else to_onnx(model, **options)
    content = proto.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    kind = session.get_inputs()[0].type
    values = np.asarray(X, dtype=np.float64 if "double" in kind else np.float32)
    return session.run(["label", "scores"], {session.get_inputs()[0].name: values})


def class_scores(model, X):
    """(n, n_classes) scores of a model: of two classes the columns 0 and decision_function."""
    scores = model.decision_function(X)
    return np.column_stack([0.0 * scores, scores]) if scores.ndim == 1 else scores


def lead(scores):
    top = np.sort(scores, axis=1)
    return top[:, -1] - top[:, -2]


def predict_json(text, x):
    """Label and scores of one example, from the document alone and without any library."""
    model = json.loads(text)
    assert (model["format"], model["version"]) == ("polymargin-model", 1)
    z = list(x)
    if model["scaler"] is not None:
        s = model["scaler"]
        z = [(v - a) * b for v, a, b in zip(z, s["shift"], s["scale"], strict=True)]
        if s["low"] is not None:
            z = [min(max(v, a), b) for v, a, b in zip(z, s["low"], s["high"], strict=True)]
    products = [sum(a * b for a, b in zip(v, z, strict=True)) for v in model["vectors"]]
    kernel = model["kernel"]
    if kernel["name"] == "linear":
        f = products
    else:
        if kernel["name"] == "rbf":
            squares = [
                sum((a - b) ** 2 for a, b in zip(v, z, strict=True)) for v in model["vectors"]
            ]
            values = [math.exp(-kernel["gamma"] * s) for s in squares]
        elif kernel["name"] == "poly":
            values = [(kernel["gamma"] * p + kernel["coef0"]) ** kernel["degree"] for p in products]
        else:
            values = [math.tanh(kernel["gamma"] * p + kernel["coef0"]) for p in products]
        f = [
            sum(row[r] * k for row, k in zip(model["coefficients"], values, strict=True))
            for r in range(len(model["intercepts"]))
        ]
    f = [a + b for a, b in zip(f, model["intercepts"], strict=True)]
    scores = [
        max((f[r] for r, c in enumerate(model["prototype_class"]) if c == k), default=0.0)
        for k in range(len(model["labels"]))
    ]
    if len(scores) == 2:
        scores = [0.0, scores[1] - scores[0]]
    return model["labels"][scores.index(max(scores))], scores
