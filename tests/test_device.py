"""Exported models on a device: a Cortex-M under QEMU, and the Arduino sketch under g++."""

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import pytest
from export_tools import compiler
from sklearn.datasets import load_digits

from polymargin import MultiPrototypeSVC, to_c

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
X, Y = load_digits(return_X_y=True)

SERIAL = """
#include <cstdio>
struct Port {
    float next = 0.0f;
    void begin(long) {}
    bool available() { return next < 8.0f; }
    float parseFloat() { static const float x[8] = {5.1f, 3.5f, 1.4f, .2f, 6.5f, 3.f, 5.8f, 2.2f};
                         return x[(int)next++]; }
    void println(const char *text) { std::puts(text); }
} Serial;
#include "flowers.ino"
int main() { setup(); for (int i = 0; i < 20; ++i) loop(); }
"""


@pytest.fixture(scope="module")
def device():
    spec = importlib.util.spec_from_file_location("emulate", EXAMPLES / "cortex_m" / "emulate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = module.missing_tools()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return module


@pytest.fixture(scope="module")
def digits():
    return MultiPrototypeSVC(fit_into="2kB", random_state=0, max_time=20).fit(X[:500], Y[:500])


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_labels_on_the_device_are_those_of_python(core, device, digits, tmp_path):
    to_c(digits, tmp_path / "digits.h", name="digits")
    run = device.emulate(tmp_path / "digits.h", X[500:1000], core)
    print(run.text())
    assert (digits.classes_[np.array(run.classes)] == digits.predict(X[500:1000])).all()
    # every weight is read once: at least one instruction each, at most fifty with all around it
    weights = digits.compact_["weights"].size
    assert weights < run.instructions < 50 * weights + 50_000
    assert digits.model_bytes_ - 50 < run.flash_bytes < digits.model_bytes_ + 3000
    assert run.ram_bytes == 0


def test_float_tables_on_the_device(device, tmp_path):
    model = MultiPrototypeSVC(1, C=0.01, random_state=0).fit(X[:500], Y[:500])
    to_c(model, tmp_path / "digits.h", name="digits")
    run = device.emulate(tmp_path / "digits.h", X[500:600], "cortex-m4")
    assert (np.array(run.classes) == model.predict(X[500:600])).all()


def test_the_arduino_sketch_compiles_and_labels(tmp_path):
    gxx = compiler("g++")
    (tmp_path / "main.cpp").write_text(SERIAL)
    folder = EXAMPLES / "arduino" / "flowers"
    build = [gxx, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-I", str(folder)]
    subprocess.run([*build, "-o", str(tmp_path / "a"), str(tmp_path / "main.cpp")], check=True)
    said = subprocess.run([str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["setosa", "virginica"]
