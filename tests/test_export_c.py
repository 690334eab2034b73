"""C headers, compiled with every warning an error and compared with Python."""

import re
import subprocess
import warnings
from dataclasses import replace

import numpy as np
import pytest
from conftest import make_overlapping
from export_tools import FLAGS, class_scores, compiler, lead, run_c
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.export import ExportModel, to_c
from polymargin.export.c_kernel import plan_kernel
from polymargin.export.c_text import c_string
from polymargin.export.c_writer import constant_bytes, header_and_notes

X, Y = make_overlapping(n=90, d=5)
X32 = X.astype(np.float32).astype(np.float64)
MODELS = {
    "linear": MulticlassSVC(C=0.5, random_state=0),
    "free": MulticlassSVC("llw", C=0.5),
    "prototypes": MultiPrototypeSVC(3, C=0.5, random_state=0),
    "rbf": MulticlassSVC(kernel="rbf"),
    "poly": MulticlassSVC(kernel="poly", coef0=1.0),
    "odd poly": MulticlassSVC(kernel="poly", coef0=4.0, degree=1.5, gamma=0.1),
    "sigmoid": MulticlassSVC(kernel="sigmoid", gamma=0.01, max_iter=20),
    "rbf prototypes": MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    "hull": ConvexHullSVC(eta=0.2),
    "linear hull": ConvexHullSVC(eta=0.2, kernel="linear"),
}
TOLERANCE = {"float32": 1e-5, "int16": 2e-3, "int8": 3e-2}


def agree(model, values, folder, dtype="float32"):
    number, scores = run_c(model, values, folder, dtype, options=("-O1",))
    expected = class_scores(model, values)
    size = np.abs(expected).max()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=TOLERANCE[dtype] * size)
    np.testing.assert_array_equal(number, scores.argmax(axis=1))
    clear = lead(expected) >= (1e-5 if dtype == "float32" else 2 * TOLERANCE[dtype] * size)
    np.testing.assert_array_equal(model.classes_[number[clear]], model.predict(values)[clear])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_float_models(name, two, tmp_path):
    scaler = StandardScaler() if two else None
    model = MODELS[name] if scaler is None else make_pipeline(scaler, MODELS[name])
    agree(model.fit(X, Y % 2 if two else Y), X32, tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "int8") for name in MODELS if name not in ("free", "odd poly")),
        ("prototypes", "int16"),
        ("rbf", "int16"),
    ],
)
def test_integer_models(name, dtype, tmp_path):
    model = make_pipeline(StandardScaler(), MODELS[name]).fit(X, Y)
    agree(model, X32, tmp_path, dtype)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("name", ["prototypes", "rbf"])
def test_scaler_with_limits(name, dtype, tmp_path):
    model = make_pipeline(MinMaxScaler(clip=True), MODELS[name]).fit(X, Y)
    agree(model, 2.0 * X32, tmp_path, dtype)


@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_features_of_unlike_size_far_from_zero(name, dtype, tmp_path):
    sizes = 10.0 ** np.arange(-4, 6, 2)
    far = ((X + 100.0) * sizes).astype(np.float32).astype(np.float64)
    model = make_pipeline(StandardScaler(), MODELS[name]).fit(far, Y)
    agree(model, far, tmp_path, dtype)


def test_unlike_features_without_a_scaler(tmp_path):
    """The support vectors tell how large each feature is."""
    uneven = (X32 * [1.0, 30.0, 0.1, 1000.0, 5.0]).astype(np.float32).astype(np.float64)
    model = MulticlassSVC(C=0.01).fit(uneven, Y)
    agree(model, uneven, tmp_path, "int8")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
def test_polynomials_that_cancel(dtype, tmp_path):
    """Positive features: kernel values are large and nearly equal, scores are not."""
    values = (X32 + 20.0).astype(np.float32).astype(np.float64)
    for y in (Y, Y % 2):
        model = MulticlassSVC(kernel="poly", coef0=1.0, C=0.01, max_iter=2000).fit(values, y)
        assert "Sums are in double" in to_c(model, dtype=dtype)
        _, scores = run_c(model, values, tmp_path, dtype)
        expected = class_scores(model, values)
        limit = {"float32": 1e-6, "int16": 1e-3, "int8": 2e-2}[dtype] * np.abs(expected).max()
        np.testing.assert_allclose(scores, expected, rtol=0, atol=limit)


def test_unequal_prototypes(tmp_path):
    for counts, y in (([1, 3, 2, 1], Y), ([1, 3], Y % 2)):
        model = MultiPrototypeSVC(counts, C=0.5, random_state=0).fit(X, y)
        agree(model, X32, tmp_path)


def test_ties_go_to_the_first_class(tmp_path):
    model = MulticlassSVC(intercept="none").fit(X, Y)
    for dtype in ("float32", "int16", "int8"):
        number, scores = run_c(model, np.zeros((2, 5)), tmp_path, dtype)
        assert number.tolist() == [0, 0]
        assert not scores.any()


@pytest.mark.parametrize("name", ["linear", "rbf"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_what_is_no_number_has_no_class(name, dtype, tmp_path):
    model = MODELS[name].fit(X, Y)
    rows = np.tile(X[:1], (5, 1))
    rows[0, 0], rows[1, 2], rows[2, 4] = np.nan, np.inf, -np.inf
    rows[3] = 3e38  # finite, but its scores are not always
    checked = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover")
    number, _ = run_c(model, rows, tmp_path, dtype, options=checked)
    assert number[:3].tolist() == [-1, -1, -1]
    assert -1 <= number[3] < 4
    assert 0 <= number[4] < 4


def test_far_away_kernels_are_zero(tmp_path):
    model = MulticlassSVC("ww", kernel="rbf").fit(X, Y)  # with an intercept that decides
    rows = np.array([[3e38] * 5, [-1e25] * 5, [1e4] * 5])
    for dtype in ("float32", "int16", "int8"):
        number, scores = run_c(model, rows, tmp_path, dtype)
        np.testing.assert_allclose(scores, np.tile(model.intercept_, (3, 1)), atol=1e-6)
        assert number.tolist() == [model.intercept_.argmax()] * 3


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("linear", "int16"), ("prototypes", "float32"), ("prototypes", "int8"), ("poly", "float32")],
)
def test_no_library(name, dtype, tmp_path):
    gcc = compiler()
    to_c(MODELS[name].fit(X, Y), tmp_path / "m.h", dtype=dtype, name="m")
    text = (
        '#include "m.h"\nint f(const float *x);\nint f(const float *x) { return m_predict(x); }\n'
    )
    (tmp_path / "m.c").write_text(text)
    for level in ("-O0", "-O3"):
        build = [gcc, *FLAGS, level, "-fno-stack-protector", "-c", "m.c", "-o", "m.o"]
        subprocess.run(build, cwd=tmp_path, check=True)
        link = [gcc, "-nostdlib", "-shared", "-Wl,--no-undefined", "m.o", "-o", "m.so"]
        subprocess.run(link, cwd=tmp_path, check=True)
    assert "#include <math.h>" not in (tmp_path / "m.h").read_text()


def test_several_models_and_cpp(tmp_path):
    """Two headers in one file, both twice, also as C++; unused functions are no warning."""
    gcc, cpp = compiler(), compiler("g++")
    to_c(MODELS["rbf"].fit(X, Y), tmp_path / "a.h", name="a")
    to_c(MODELS["linear"].fit(X, Y), tmp_path / "b.h", dtype="int8", name="b")
    text = '#include "a.h"\n#include "b.h"\n#include "a.h"\nint main(void) { return 0; }\n'
    (tmp_path / "m.c").write_text(text)
    subprocess.run([gcc, *FLAGS, "m.c", "-o", "m", "-lm"], cwd=tmp_path, check=True)
    flags = ["-std=c++11" if flag == "-std=c99" else flag for flag in FLAGS]
    subprocess.run([cpp, *flags, "-x", "c++", "m.c", "-o", "m", "-lm"], cwd=tmp_path, check=True)
    subprocess.run([gcc, *FLAGS, "-fsyntax-only", "-x", "c", "b.h"], cwd=tmp_path, check=True)


# -- labels and names --------------------------------------------------------------------------


def printed_labels(text, folder, kind):
    (folder / "m.h").write_text(text, encoding="ascii")
    (folder / "m.c").write_text(
        '#include <stdio.h>\n#include "m.h"\nint main(void)\n{\n    int c;\n'
        "    for (c = 0; c < M_N_CLASSES; ++c) {\n"
        f"        {kind}\n    }}\n    return 0;\n}}\n"
    )
    subprocess.run([compiler(), *FLAGS, "m.c", "-o", "m"], cwd=folder, check=True)
    return subprocess.run([folder / "m"], capture_output=True, check=True).stdout


AWKWARD = ['a"b', "c\\n", "??/", "日本", "*/ /*", "%s\n", "", "ü7\t1"]


def test_text_labels(tmp_path):
    y = np.array(AWKWARD)[np.arange(len(X)) % 8]
    model = MulticlassSVC(C=0.1).fit(X, y)
    text = to_c(model, name="m")
    found = printed_labels(text, tmp_path, "fputs(m_label(c), stdout); putchar(1);")
    assert found.decode().split("\x01")[:-1] == sorted(AWKWARD)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ([7, -3, 0, 2147483647], [-3, 0, 7, 2147483647]),
        ([2**62, -(2**63), 5, 1], [-(2**63), 1, 5, 2**62]),
        ([1.0, 2.0, 3.0, 4.0], [1, 2, 3, 4]),
        ([False, True, False, True], [0, 1]),
    ],
)
def test_number_labels(labels, wanted, tmp_path):
    model = MulticlassSVC(C=0.1).fit(X, np.array(labels)[Y])
    found = printed_labels(
        to_c(model, name="m"), tmp_path, 'printf("%lld ", (long long)m_label(c));'
    )
    assert [int(word) for word in found.split()] == wanted


@settings(max_examples=200)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12))
def test_strings_are_exact(text):
    literal = c_string(text)
    assert literal.isascii()
    assert "??" not in literal
    body = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), literal[1:-1])
    body = re.sub(r'\\(["\\?])', r"\1", body)
    # an escaped backslash before digits would be read twice by the lines above
    if "\\" not in text:
        assert body.encode("latin-1").decode("utf-8") == text


def test_refusals(tmp_path):
    model = MulticlassSVC().fit(X, Y)
    for name in ("", "2nd", "a-b", "ü", "a b", "int", "class", "x;y", "_x", None):
        with pytest.raises(ValueError, match="name"):
            to_c(model, name=name)
    with pytest.raises(ValueError, match="dtype"):
        to_c(model, dtype="int2")
    with pytest.raises(ValueError, match="NUL"):
        to_c(MulticlassSVC().fit(X, np.array(["a\0b", "c", "d", "e"])[Y]))
    model.coef_ = model.coef_ * 1e60
    with pytest.raises(ValueError, match="range of float32"):
        to_c(model)
    assert not list(tmp_path.iterdir())


def test_feature_names_cannot_leave_the_comment(tmp_path):
    pandas = pytest.importorskip("pandas")
    names = ["a*/ int x;", "/* b", "c\\", "??/", "d\ne"]
    model = MulticlassSVC().fit(pandas.DataFrame(X, columns=names), Y)
    assert to_c(model).isascii()
    run_c(model, X, tmp_path)


# -- sizes and accuracy ------------------------------------------------------------------------


def test_size_is_stated():
    model = MultiPrototypeSVC(3, C=0.5, random_state=0).fit(X, Y)
    text = to_c(model)
    size = constant_bytes(model)
    assert f"#define POLYMARGIN_MODEL_BYTES {size} " in text
    assert f"Size: {size} bytes" in text
    assert size == 12 * 5 * 4 + 12 * 4 + 5 + 4  # weights, intercepts, first prototypes, labels
    sizes = [constant_bytes(model, dtype) for dtype in ("int4", "int8", "int16")]
    assert sizes == sorted(sizes)
    assert sizes[-1] < size


def test_coarse_headers_carry_a_caution():
    """Hulls that almost meet: next to nothing is left of the sums."""
    model = ConvexHullSVC(eta=0.2).fit(X, Y)
    record = ExportModel.from_estimator(model)
    assert not any("Caution" in note for note in header_and_notes(record, "int8")[1])
    close = np.tile(record.vectors.mean(axis=0), (len(record.vectors), 1))
    close += 1e-7 * (record.vectors - close)
    text, notes = header_and_notes(replace(record, vectors=close), "float32")
    assert any("Caution" in note for note in notes)
    assert "Caution" in text


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    test = np.arange(len(y)) % 3 == 0
    return X[~test], y[~test], X[test], y[test]


@pytest.mark.parametrize(
    "model",
    [
        MulticlassSVC(C=0.01),
        MultiPrototypeSVC(5, C=0.01, random_state=0),
        make_pipeline(StandardScaler(), MultiPrototypeSVC(5, C=0.05, random_state=0)),
        make_pipeline(StandardScaler(), MulticlassSVC(kernel="rbf", C=10.0)),
    ],
    ids=["linear", "prototypes", "scaled prototypes", "rbf"],
)
def test_digits(model, digits, tmp_path):
    X_train, y_train, X_test, y_test = digits
    model.fit(X_train, y_train)
    agree(model, X_test, tmp_path)
    exact = np.mean(model.predict(X_test) == y_test)
    for dtype in ("int16", "int8"):
        number, _ = run_c(model, X_test, tmp_path, dtype)
        assert exact - np.mean(model.classes_[number] == y_test) < 0.005


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],  # every example is a compilation: do not shrink
)
@given(
    d=st.integers(1, 9),
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    exponent=st.integers(-12, 12),
    dtype=st.sampled_from(["float32", "int16", "int8"]),
    kernel=st.sampled_from(["linear", "rbf"]),
    seed=st.integers(0, 2**16),
)
def test_random_records(d, counts, exponent, dtype, kernel, seed, tmp_path):
    """Any shape and size of numbers: compiled scores are those of the record."""
    rng = np.random.default_rng(seed)
    size = 10.0**exponent
    R, m = sum(counts), 20
    prototype_class = np.repeat(np.arange(len(counts)), counts)
    vectors = rng.normal(size=(m if kernel == "rbf" else R, d))
    is_rbf = kernel == "rbf"
    record = ExportModel(
        kind="kernel" if is_rbf else "prototypes",
        estimator="random",
        labels=tuple(range(len(counts))),
        label_type="int",
        n_features=d,
        feature_names=None,
        scaling=None,
        kernel=kernel,
        gamma=0.3 / size**2,
        degree=3.0,
        coef0=0.0,
        vectors=vectors * size if is_rbf else vectors / size,
        coefficients=rng.normal(size=(m, R)) if is_rbf else None,
        intercepts=rng.normal(size=R),
        prototype_class=prototype_class,
        mean=np.zeros(d),
        spread=np.full(d, size),
    )
    data = (rng.normal(size=(30, d)) * size).astype(np.float32)
    _, scores = run_c(record, data, tmp_path, dtype, options=("-O1",))
    expected = record.scores(data)
    limit = {"float32": 2e-6, "int16": 3e-3, "int8": 8e-2}[dtype]
    largest = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=limit * largest)


@pytest.mark.filterwarnings("ignore")
def test_integers_that_change_classes_are_named_or_refused():
    """Large terms of a polynomial cancel; those of a Gaussian kernel do not."""
    model = MulticlassSVC(kernel="poly", coef0=1.0, C=100.0, max_iter=2000).fit(X + 20.0, Y)
    with pytest.raises(ValueError, match=r"dtype='int8' is too coarse.*use dtype='int16' or"):
        to_c(model, dtype="int8")
    two = MulticlassSVC(kernel="poly", coef0=1.0, C=100.0, max_iter=2000).fit(X + 20.0, Y % 2)
    with pytest.warns(UserWarning, match=r"Caution: scores are off.*use dtype='float32'"):
        assert "Caution" in to_c(two, dtype="int16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_c(model, dtype="float32")
        for C in (1.0, 1e4):
            to_c(MulticlassSVC(kernel="rbf", C=C).fit(X, Y), dtype="int8")


def test_changed_classes_are_those_of_the_compiled_header(tmp_path):
    """The share at support vectors and middles, which the plan reckons, is what C does there."""
    model = MulticlassSVC(kernel="poly", coef0=1.0, C=10.0, max_iter=2000).fit(X32 + 4.0, Y)
    plan = plan_kernel(ExportModel.from_estimator(model), "model", "int8")
    V = model.support_vectors_
    first, second = np.random.default_rng(0).integers(0, len(V), (2, 300))
    points = np.vstack([V, 0.5 * (V[first] + V[second])]).astype(np.float32).astype(np.float64)
    number, _ = run_c(model, points, tmp_path, "int8")
    changed = (model.classes_[number] != model.predict(points)).mean()
    assert changed > 0.0
    assert abs(plan.changed - changed) < 0.02
