"""Reports: content, safety, size, and every estimator."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import make_overlapping, make_separable
from report_pages import MODELS, digit_model, digits, play_of, quiet, read
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, precision_recall_fscore_support
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
    certified_radius,
    explain,
    leave_one_out,
    render_report,
    write_report,
)
from polymargin.estimators.inspection import dissect, labelled
from polymargin.plots import (
    CalibrationDisplay,
    ConfusionDisplay,
    MarginDistributionDisplay,
)
from polymargin.report import facts, measures, portraits

__all__ = ["digit_model", "digits"]  # fixtures


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_estimator(name, n_classes):
    X, y = make_overlapping()
    y = np.array(["no", "yes", "perhaps", "never"])[y % n_classes]
    model = quiet(MODELS[name], X, y)
    page = read(render_report(model, X, y, seconds=1.5, X_train=X, y_train=y))
    assert "1.5 s" in page.words
    assert "The examples are the training examples" in page.words
    for label in np.unique(y):
        assert label in page.words
    if name not in ("stranger", "without scores", "sigmoid", "hulls that meet"):
        assert "best possible" in page.words
        assert {"certificate", "history", "margins", "hardest"} <= set(page.ids)


# -- what it says ------------------------------------------------------------------------------


def test_figures(digits, digit_model):
    X, y, X_test, y_test = digits
    page = read(render_report(digit_model, X_test, y_test, X_train=X, y_train=y))
    predicted = digit_model.predict(X_test)
    wrong = int((predicted != y_test).sum())
    assert f"{wrong} of {len(y_test)} examples are labelled wrongly" in page.words
    assert f"{100 * balanced_accuracy_score(y_test, predicted):.2f} %" in page.words
    precision, recall, f1, support = precision_recall_fscore_support(y_test, predicted)
    found = labelled(digit_model, X_test, y_test)
    parts = dissect(digit_model)
    rows = measures.class_rows(parts, ConfusionDisplay.record(digit_model, X_test, y_test))
    np.testing.assert_allclose([row.precision for row in rows], precision)
    np.testing.assert_allclose([row.recall for row in rows], recall)
    np.testing.assert_allclose([row.f1 for row in rows], f1)
    assert [row.support for row in rows] == support.tolist()
    alive = np.bincount(digit_model.prototype_classes_[digit_model.alive_], minlength=10)
    assert [row.parts for row in rows] == [f"{a} of 3" for a in alive]
    assert measures.model_size(parts) == 4 * 30 * 65
    assert "7.8 kB" in page.words
    assert f"{len(X):,} examples, 64 features" in page.words
    hard = measures.hardest(parts, found, 5)
    order = np.argsort(found.margins)[:5]
    assert [one.row for one in hard] == order.tolist()
    assert [one.predicted for one in hard] == predicted[order].tolist()
    for one in hard:
        assert one.margin == pytest.approx(one.own_score - one.rival_score)


def test_images_are_images(digits, digit_model):
    X_test, y_test = digits[2:]
    page = read(render_report(digit_model, X_test, y_test))
    assert len(page.images) == 30 + 12
    unused = sum("wins no training example" in image["alt"] for image in page.images)
    assert unused == (~digit_model.alive_).sum()
    plain = read(render_report(digit_model, X_test, y_test, image_shape=None))
    assert "For the class" in plain.words
    assert all("Lead of prototype" in image["alt"] for image in plain.images)
    other = read(render_report(digit_model, X_test, y_test, image_shape=(4, 16)))
    assert len(other.images) == 42


def test_strong_features_have_names():
    data = load_iris(as_frame=True)
    X, y = data.data, data.target_names[data.target]
    model = make_pipeline(StandardScaler(), MulticlassSVC()).fit(X, y)
    page = read(render_report(model, X, y))
    assert "petal length (cm)" in page.words
    renamed = read(render_report(model[-1], X.to_numpy(), y, feature_names=list("abcd")))
    assert "petal" not in renamed.words
    found = labelled(model, X, y)
    seen = portraits.contest(dissect(model), found)
    rows, left_out = portraits.strong(dissect(model), seen, list(X.columns))
    assert left_out == 0
    assert sum(row.wins for row in rows) == len(y)
    assert [row.rival for row in rows] == ["versicolor", rows[1].rival, "versicolor"]
    Z = model[0].transform(X)
    lead = (model[-1].coef_[2] - model[-1].coef_[1]) * Z.std(axis=0)
    assert rows[2].for_it[0] == (X.columns[lead.argmax()], pytest.approx(lead.max()))


def test_two_features_have_a_map():
    data = load_iris(as_frame=True)
    X, y = data.data.iloc[:, 2:], data.target_names[data.target]
    page = read(render_report(MulticlassSVC(kernel="rbf").fit(X, y), X, y))
    assert "regions" in page.ids
    (image,) = [attributes for tag, attributes in page.tags if tag == "image"]
    assert image["href"].startswith("data:image/png;base64,")
    assert "up: petal width (cm)" in page.words


def test_certificate_in_words():
    X, y = make_overlapping()
    model = MulticlassSVC(tol=1e-3).fit(X, y)
    proof = facts.certificate_in_words(model)
    certificate = model.certificate_
    bound = 100 * certificate.gap / certificate.dual
    stated = float(re.search(r"at most ([\d.e-]+)\s%", proof.sentences[0])[1])
    assert bound <= stated <= 1.1 * bound
    low, high = map(float, re.search(r"between (\S+) and (\S+):", proof.sentences[0]).groups())
    assert low == pytest.approx(certificate.dual, rel=1e-4)
    assert high == pytest.approx(certificate.primal, rel=1e-4)
    assert low < high
    assert proof.state == "good"
    assert not proof.warnings


def test_unfinished_and_unproven_models():
    X, y = make_overlapping()
    early = quiet(MulticlassSVC(max_iter=1, tol=1e-9, C=100.0), X, y)
    page = read(render_report(early, X, y))
    assert "above tol=1e-09. Increase max_iter or tol" in page.words
    assert "speaks of training" in page.words
    assert facts.certificate_in_words(early).state == "bad"
    bent = quiet(MODELS["sigmoid"], X, y)
    assert bent.certificate_.kernel_psd is False
    assert "proves nothing" in read(render_report(bent, X, y)).words
    rng = np.random.default_rng(0)
    noise = quiet(
        MulticlassSVC(C=np.inf, max_iter=200), rng.normal(size=(40, 2)), np.arange(40) % 3
    )
    assert not np.isfinite(noise.certificate_.primal)
    words = read(render_report(noise, rng.normal(size=(40, 2)), np.arange(40) % 3)).words
    assert "No upper bound" in words
    X, y = make_separable()
    hard = quiet(MulticlassSVC(C=np.inf), X, y)
    assert "hard margin" in read(render_report(hard, X, y)).words


def test_no_time_for_a_certificate():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 5)), rng.integers(3, size=3000)
    for model in (
        MulticlassSVC(kernel="rbf", max_time=1e-3),
        MultiPrototypeSVC(2, kernel="rbf", max_time=1e-3, random_state=0),
        ConvexHullSVC(eta=0.01, max_time=1e-3),
    ):
        page = render_report(quiet(model, X, y), X[:50], y[:50])
        found = read(page)
        assert "time limit" in found.words
        assert "inf" not in found.words.split()
        labels = [a["aria-label"] for tag, a in found.tags if "aria-label" in a]
        assert not any("inf" in label.split() or "nan" in label for label in labels)


def test_prototypes_within_tol_are_not_called_unconverged():
    """A search for assignments that a limit ended may still be within tol."""
    X, y = make_overlapping()
    model = quiet(MultiPrototypeSVC(2, random_state=0, tol=1e-2), X, y)
    model.status_ = "max_time"
    assert model.certificate_.relative_gap <= model.tol
    (warning,) = facts.certificate_in_words(model).warnings
    assert "before the search for a better assignment was over" in warning
    assert warning.endswith("Increase max_time.")
    assert "above tol" not in warning


def test_grounds_for_trust(clock):
    """However busy the machine is: a look at the clock takes a millionth of a second."""
    clock.restart(look_seconds=1e-6)
    X, y = make_overlapping()
    model = make_pipeline(StandardScaler(), MulticlassSVC(C=0.1)).fit(X, y)
    words = read(render_report(model, X, y, X_train=X, y_train=y)).words
    found = leave_one_out(model[-1], model[0].transform(X), y)
    assert f"gets {found.errors} of {len(y)} wrong. This is computed exactly." in words
    radius = np.median(certified_radius(model, X, units="scaled").radius)
    assert f"shorter than {radius:.3g}" in words
    assert "Vacuous" in words
    margins = MarginDistributionDisplay.record(model, X, y)
    assert f"{100 * margins.n_clear / len(y):.1f} % of the measured examples are right" in words
    # without the training examples: support vectors bound the leave-one-out error
    words = read(render_report(model, X, y)).words
    assert f"at most {100 * len(model[-1].support_) / len(y):.1f} % could be wrong" in words
    assert found.errors <= len(model[-1].support_)


def test_probabilities():
    X, y = make_overlapping()
    model = LogisticRegression(max_iter=1000).fit(X, y)
    record = CalibrationDisplay.record(model, X, y)
    assert record.log_loss == pytest.approx(log_loss(y, model.predict_proba(X)))
    assert record.count.sum() == len(y)
    np.testing.assert_allclose(record.accuracy @ record.count, (model.predict(X) == y).sum())
    words = read(render_report(model, X, y)).words
    assert f"Log loss {record.log_loss:.3g}" in words
    even = CalibrationDisplay.of(np.array([[0.75, 0.25]] * 4), np.array([0, 0, 0, 1]))
    assert even.error == pytest.approx(0.0)
    with pytest.raises(TypeError, match="no predict_proba"):
        CalibrationDisplay.record(MulticlassSVC().fit(X, y), X, y)


def test_models_with_temperature_and_sets():
    X, y = make_overlapping()
    model = MulticlassSVC(probabilities="temperature", calibration_folds=3, random_state=0)
    quiet(model, X, y)
    page = render_report(model, X, y)
    sets = model.predict_set(X, 0.9)
    held = 100 * sets[np.arange(len(y)), y].mean()
    assert f"hold it for {held:.1f} % of the measured ones" in read(page).words
    assert "chances" in read(page).ids
    assert play_of(page)["play"]["model"]["temperature"] == model.temperature_


def test_hardest_examples_have_reasons():
    X, y = make_overlapping()
    model = MulticlassSVC().fit(X, y)
    one = measures.hardest(dissect(model), labelled(model, X, y), 3)[0]
    why = explain(model, X[[one.row]])
    assert one.reasons == why.top(0, 4)
    assert "What made the prediction lead" in read(render_report(model, X, y)).words


def test_one_example_and_calibration(digits, digit_model):
    from sklearn.calibration import CalibratedClassifierCV

    X, y, X_test, y_test = digits
    assert "of 1 " in read(render_report(digit_model, X_test[:1], y_test[:1])).words
    model = CalibratedClassifierCV(MulticlassSVC(C=0.1), cv=2).fit(X[:200], y[:200])
    assert "no certificate" in read(render_report(model, X_test, y_test)).words


def test_search_shows_its_curve(digits):
    X, y, X_test, y_test = digits
    search = MultiPrototypeSVCCV(n_prototypes=(1, 3), Cs=(0.1,), cv=2, random_state=0).fit(X, y)
    page = read(render_report(search, X_test, y_test))
    assert "Validation error (%) by prototypes per class" in page.words
    assert "best of 2 pairs" in page.words


# -- labels ------------------------------------------------------------------------------------


def test_labels_and_titles_are_escaped():
    X, y = make_overlapping()
    evil = np.array(['<script>alert("x")</script>', "a & b", "'\"><b>", "javascript:1"])[y]
    model = make_pipeline(StandardScaler(), MultiPrototypeSVC(2, random_state=0)).fit(X, evil)
    names = ["<img src=x>", "b", "c", "d", "e"]
    page = render_report(model, X, evil, title="<i>&", feature_names=names)
    found = read(page)
    assert '<script>alert("x")</sc' in found.words
    assert "<i>&" in found.words
    assert "<img src=x>" in found.words
    assert {tag for tag, _ in found.tags}.isdisjoint({"i"})
    assert [a["class"] for tag, a in found.tags if tag == "img"] == ["heat weights"] * 8
    data = play_of(page)["play"]
    assert data["labels"][:4] == [str(label) for label in model.classes_]
    assert data["features"]["name"] == names


def test_labels_the_model_does_not_know():
    X, y = make_overlapping()
    model = MulticlassSVC().fit(X, y)
    strange = y.astype(object)
    strange[:3] = "new"
    page = read(render_report(model, X, strange))
    assert "3 examples carry labels that the model has never seen (new)" in page.words
    some = y < 2
    page = read(render_report(model, X[some], y[some]))
    assert "No example of 2 of the classes was measured" in page.words
    with pytest.raises(ValueError, match="y: the model knows none of its labels"):
        render_report(model, X, y.astype(str))


# -- sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [26, 100, 1000])
def test_many_classes_stay_small(n_classes):
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(n_classes), rng.integers(n_classes, size=n_classes)]
    centres = 2.0 * rng.normal(size=(n_classes, 12))
    X = centres[y] + rng.normal(size=(len(y), 12))
    model = quiet(MulticlassSVC(C=0.1, random_state=0), X, y)
    page = render_report(model, X, y)
    read(page)
    assert len(page) < 400_000  # 1000 classes: 351,000


def test_many_prototype_images_stay_small():
    rng = np.random.default_rng(0)
    Q, q, d = 60, 10, 784
    model = quiet(
        MultiPrototypeSVC(1, C=1e-3, random_state=0),
        rng.normal(size=(2 * Q, d)),
        np.arange(2 * Q) % Q,
    )
    model.prototypes_ = rng.normal(size=(Q * q, d))
    model.prototype_classes_ = np.repeat(model.classes_, q)
    model._prototype_class = np.repeat(np.arange(Q), q)
    model.intercept_ = np.zeros(Q * q)
    model.alive_ = rng.random(Q * q) < 0.8
    X, y = rng.normal(size=(2 * Q, d)), np.arange(2 * Q) % Q
    page = render_report(model, X, y, image_shape=(28, 28))
    found = read(page)
    assert "more" in found.words


def test_sparse_and_frames():
    X, y = make_overlapping(d=30)
    X[np.abs(X) < 0.5] = 0.0
    table = sparse.csr_matrix(X)
    model = MultiPrototypeSVC(2, random_state=0).fit(table, y)
    assert "sparse" in read(render_report(model, table, y)).words
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({f"size {j}": X[:, j] for j in range(30)})
    model = MulticlassSVC().fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "size 1" in read(render_report(model, frame, y)).words
    listed = MulticlassSVC().fit(X.tolist(), y.tolist())
    read(render_report(listed, X.tolist(), y.tolist()))


def test_precomputed_kernel():
    X, y = make_overlapping()
    model = MulticlassSVC(kernel="precomputed").fit(X @ X.T, y)
    assert "precomputed" in read(render_report(model, X @ X.T, y)).words


# -- files -------------------------------------------------------------------------------------


def test_file_is_written_whole(tmp_path, digits, digit_model, monkeypatch):
    X_test, y_test = digits[2:]
    path = write_report(digit_model, X_test, y_test, tmp_path / "report.html")
    assert path == tmp_path / "report.html"
    read(path.read_text(encoding="utf-8"))
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    path.write_text("old")
    path.chmod(0o600)

    def broken(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="No space"):
        write_report(digit_model, X_test, y_test, path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    monkeypatch.undo()
    returned = write_report(digit_model, X_test, y_test, str(path))
    assert isinstance(returned, Path)
    assert path.stat().st_mode & 0o777 == 0o600


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_folders_that_cannot_be_written(tmp_path, digits, digit_model, monkeypatch):
    def refused(*args, **options):
        raise PermissionError(13, "Permission denied", "somewhere")

    monkeypatch.setattr(os, "open", refused)  # root may write anywhere
    with pytest.raises(PermissionError, match="path: cannot write"):
        write_report(digit_model, *digits[2:], tmp_path / "report.html")


def test_paths_that_cannot_be(tmp_path, digits, digit_model):
    X_test, y_test = digits[2:]
    with pytest.raises(FileNotFoundError, match="path: the folder"):
        write_report(digit_model, X_test, y_test, tmp_path / "none" / "report.html")
    with pytest.raises(IsADirectoryError, match="path: "):
        write_report(digit_model, X_test, y_test, tmp_path)
    with pytest.raises(TypeError, match="path must be"):
        write_report(digit_model, X_test, y_test, 7)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": MulticlassSVC()}, NotFittedError, "not fitted"),
        ({"model": 3}, TypeError, "model must be"),
        ({"y": [1, 2]}, ValueError, "y has 2 labels"),
        ({"X": np.zeros((0, 64)), "y": []}, ValueError, "X has no rows"),
        ({"X": np.zeros(64)}, ValueError, "X must have rows"),
        ({"X": np.zeros((599, 63))}, ValueError, "63 features"),
        ({"feature_names": ["a"]}, ValueError, "feature_names has 1"),
        ({"title": 5}, TypeError, "title must be"),
        ({"seconds": -1}, ValueError, "seconds must be"),
        ({"seconds": "2"}, ValueError, "seconds must be"),
        ({"y_train": [1]}, ValueError, "X_train is missing"),
        ({"X_train": np.zeros((5, 64)), "y_train": [1]}, ValueError, "y_train has 1 labels"),
        ({"image_shape": (3, 3)}, ValueError, "image_shape"),
        ({"image_shape": "square"}, ValueError, "image_shape"),
    ],
)
def test_refusals(digits, digit_model, change, error, message):
    given = {"model": digit_model, "X": digits[2], "y": digits[3]} | change
    with pytest.raises(error, match=message):
        render_report(given.pop("model"), given.pop("X"), given.pop("y"), **given)


def test_no_matplotlib_needed():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from polymargin import MulticlassSVC, render_report\n"
        "from sklearn.datasets import load_iris\n"
        "X, y = load_iris(return_X_y=True)\n"
        "print(len(render_report(MulticlassSVC().fit(X, y), X, y)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10_000
