"""Reports: content, safety, size, and every estimator."""

import base64
import hashlib
import html
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import warnings
import zlib
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from conftest import make_overlapping, make_separable
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, precision_recall_fscore_support
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polymargin import (
    MACHINES,
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
from polymargin.export.model_record import ExportModel
from polymargin.plots import (
    CalibrationDisplay,
    ConfusionDisplay,
    MarginDistributionDisplay,
    RiskCoverageDisplay,
)
from polymargin.plots.chart import Bars, Chart, Curve, Rule, draw_chart
from polymargin.report import facts, measures, playground, png, portraits, svg, trust

VOID = {"meta", "img", "br", "link", "input", "hr"}
LIMIT = 1_000_000


class Reader(HTMLParser):
    """Checks that tags balance; collects what a page shows and what it loads."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.text, self.sources, self.tags = [], [], [], [], []
        self.headings, self.links, self.images = [], [], []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        self.sources += [
            found[name] for name in ("src", "srcset", "data", "xlink:href") if name in found
        ]
        if tag == "a":
            self.links.append(found["href"])
        if tag == "img":
            self.images.append(found)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).replace("\N{NO-BREAK SPACE}", " ").split())


def check_policy(page):
    """Nothing but the one style and the one script runs, and nothing inline besides."""
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(" ", 1) for rule in html.unescape(policy).split("; "))
    assert rules["default-src"] == "'none'"
    for name in ("style", "script"):
        (inside,) = re.findall(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
        assert "eval(" not in inside
        assert "innerHTML" not in inside
    assert page.count("<script") == 2
    assert "unsafe" not in policy
    for tag, attributes in Reader(page).tags:
        assert "style" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), tag


def play_of(page):
    """What the script of the page reads."""
    (text,) = re.findall(r'<script type="application/json" id="play-data">(.*?)</script>', page)
    assert not set("<>&") & set(text)
    return json.loads(text)


def table_of(packed):
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype="<f4").reshape(packed["shape"]).astype(float)


def read(page):
    """The page, after the checks that every page must pass."""
    assert page.startswith("<!DOCTYPE html>")
    assert len(page.encode()) < LIMIT
    assert not re.search(r"https?://|//[a-z]+\.", page)
    check_policy(page)
    assert "@import" not in page
    assert "nan" not in Reader(page).words.lower().replace("nano", "").split()
    found = Reader(page)
    assert all(source.startswith("data:image/png;base64,") for source in found.sources)
    assert len(set(found.ids)) == len(found.ids)
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert all(image.get("alt") for image in found.images)
    assert found.headings[0] == "h1"
    assert found.headings.count("h1") == 1
    for tag, attributes in found.tags:
        if tag == "th":
            assert attributes.get("scope") in ("col", "row")
        if tag == "svg" and attributes.get("aria-hidden") != "true":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
    return found


def quiet(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[::3] / 16, y[::3], X[1::3] / 16, y[1::3]


@pytest.fixture(scope="module")
def digit_model(digits):
    return MultiPrototypeSVC(3, C=0.3, random_state=0).fit(*digits[:2])


MODELS = {
    **{name: MulticlassSVC(machine=name, random_state=0) for name in MACHINES},
    "rbf": MulticlassSVC(kernel="rbf", random_state=0),
    "poly": MulticlassSVC(kernel="poly", machine="ww", random_state=0),
    "callable": MulticlassSVC(kernel=lambda A, B: np.asarray(A @ B.T), random_state=0),
    "sigmoid": MulticlassSVC(kernel="sigmoid", gamma=0.1, C=0.1, random_state=0),
    "prototypes": MultiPrototypeSVC(2, random_state=0),
    "kernel prototypes": MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    "search": MultiPrototypeSVCCV(n_prototypes=(1, 2), Cs=(0.1, 1.0), cv=2, random_state=0),
    "hulls": ConvexHullSVC(eta=0.2),
    "linear hulls": ConvexHullSVC(eta=0.1, kernel="linear"),
    "hulls that meet": ConvexHullSVC(eta=1.0, kernel="linear"),
    "pipeline": make_pipeline(StandardScaler(), MultiPrototypeSVC(2, random_state=0)),
    "grid": GridSearchCV(
        make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)),
        {"multiclasssvc__C": [0.1, 1.0]},
        cv=2,
    ),
    "stranger": LogisticRegression(),
    "without scores": DecisionTreeClassifier(random_state=0),
}


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


def test_grounds_for_trust(monkeypatch):
    monkeypatch.setattr(trust, "_LEFT_OUT_SECONDS", None)  # however busy the machine is
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


# -- what can be played with -------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODELS])
def test_embedded_model_gives_the_labels_of_python(name):
    X, y = make_overlapping()
    model = quiet(MODELS[name], X, y)
    play = play_of(render_report(model, X, y))["play"]
    if name in ("callable", "stranger", "without scores"):
        assert play["model"] is None
        assert play["reason"]
        return
    record = ExportModel.from_estimator(model)
    rows = table_of(play["examples"]["rows"])
    which = [int(row) for row in play["examples"]["name"]]
    np.testing.assert_allclose(rows, X[which], rtol=1e-6)
    predicted = [play["labels"][k] for k in play["examples"]["predicted"]]
    assert predicted == [str(label) for label in model.predict(X[which])]
    top = np.sort(record.scores(rows), axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-5
    won = record.scores(rows).argmax(axis=1)
    np.testing.assert_array_equal(won[clear], np.array(play["examples"]["predicted"])[clear])
    # every kind of error is there, but for ties
    found, top = model.predict(X), np.sort(record.scores(X), axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-5
    kinds = {(a, b) for a, b in zip(y[clear], found[clear], strict=True) if a != b}
    shown = {(play["labels"][a], play["labels"][b]) for a, b in pairs_of(play)}
    assert {(str(a), str(b)) for a, b in kinds} <= shown


def pairs_of(play):
    return zip(play["examples"]["true"], play["examples"]["predicted"], strict=True)


@pytest.mark.parametrize(
    "name", ["cs", "rbf", "poly", "sigmoid", "prototypes", "pipeline", "hulls"]
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_script_computes_what_python_computes(name, n_classes, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    X, y = make_overlapping()
    y = y % n_classes
    model = quiet(MODELS[name], X, y)
    (tmp_path / "data.json").write_text(json.dumps(play_of(render_report(model, X, y))["play"]))
    script = files("polymargin.report").joinpath("templates", "report.js").read_text()
    (tmp_path / "report.js").write_text(script)
    (tmp_path / "run.js").write_text(
        """const { unpacked, evaluate, contributions, rowOf } = require("./report.js");
        unpacked(require("./data.json")).then((play) => {
          const out = play.examples.true.map((_, i) => {
            const found = evaluate(play.model, rowOf(play.examples.rows, i));
            const why = contributions(play.model, found);
            return { scores: found.scores, winner: found.winner, lead: found.lead,
              sum: why.parts.reduce((a, b) => a + b, why.constant), parts: Array.from(why.parts) };
          });
          console.log(JSON.stringify(out));
        });"""
    )
    done = subprocess.run(
        [node, "run.js"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    play = json.loads((tmp_path / "data.json").read_text())
    found = json.loads(done.stdout)
    which = [int(row) for row in play["examples"]["name"]]
    assert [one["winner"] for one in found] == play["examples"]["predicted"]
    expected = ExportModel.from_estimator(model).scores(X[which])
    np.testing.assert_allclose([one["scores"] for one in found], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        [one["sum"] for one in found], [one["lead"] for one in found], rtol=1e-6, atol=1e-9
    )
    if name in ("poly", "sigmoid", "hulls"):  # explain() refuses these kernels
        return
    why = explain(model, X[which])
    np.testing.assert_allclose(why.lead, [one["lead"] for one in found], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        why.contributions, [one["parts"] for one in found], rtol=1e-3, atol=1e-4
    )


def test_large_models_are_not_embedded(digits, digit_model, monkeypatch):
    monkeypatch.setattr(playground, "_MODEL_BYTES", 100)
    page = render_report(digit_model, *digits[2:])
    assert play_of(page)["play"]["model"] is None
    assert "too large to run inside this page" in read(page).words


def test_steps_that_cannot_be_exported():
    X, y = make_overlapping()
    model = make_pipeline(QuantileTransformer(n_quantiles=10), MulticlassSVC()).fit(X, y)
    play = play_of(render_report(model, X, y))["play"]
    assert play["space"] == "model"
    which = [int(row) for row in play["examples"]["name"]]
    seen = model[0].transform(X[which])
    np.testing.assert_allclose(table_of(play["examples"]["rows"]), seen, rtol=1e-6)


def test_rejecting(digits, digit_model):
    X_test, y_test = digits[2:]
    scores = digit_model.decision_function(X_test)
    top = np.sort(scores, axis=1)
    lead, right = top[:, -1] - top[:, -2], digit_model.predict(X_test) == y_test
    found = RiskCoverageDisplay.record(digit_model, X_test, y_test)
    for k in range(0, len(found.threshold), 50):
        answered = lead >= found.threshold[k]
        assert found.coverage[k] == pytest.approx(answered.mean())
        assert found.risk[k] == pytest.approx(1.0 - right[answered].mean())
    assert found.coverage[-1] == 1.0
    assert found.risk[-1] == pytest.approx(1.0 - right.mean())
    thin = found.thinned(20)
    assert len(thin.coverage) <= 20
    assert thin.coverage[-1] == 1.0
    equal = RiskCoverageDisplay.of(np.array([[1.0, 0.0]] * 3), np.array([True, False, True]))
    assert equal.coverage.tolist() == [1.0]
    reject = play_of(render_report(digit_model, X_test, y_test))["reject"]
    assert reject["n"] == len(y_test)
    assert reject["risk"][-1] == pytest.approx(found.risk[-1], rel=1e-5)


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
    model = quiet(MulticlassSVC(C=0.1, max_time=5, random_state=0), X, y)
    page = render_report(model, X, y)
    read(page)
    assert len(page) < 400_000


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

    monkeypatch.setattr("polymargin.storage.atomic.os.replace", broken)
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

    monkeypatch.setattr("polymargin.storage.atomic.tempfile.mkstemp", refused)
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


# -- pieces ------------------------------------------------------------------------------------


def test_wilson_interval():
    assert measures.wilson(0, 100)[0] == 0.0
    low, high = measures.wilson(50, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))
    assert measures.wilson(3, 3)[1] == 1.0


def test_rounding_up_never_promises_too_much():
    rng = np.random.default_rng(0)
    for value in [0.0, 1.0, 100.0, 0.049, 99.5, 1234.0, *10.0 ** rng.uniform(-9, 5, size=200)]:
        stated = float(facts.rounded_up(value).replace(",", ""))
        assert value * (1 - 1e-9) <= stated <= 1.11 * value + 1


def test_images_decode():
    image = png.diverging_image(np.array([[-1.0, 0.0, 1.0], [0.5, -0.5, 0.0]]))
    raw = base64.b64decode(image.removeprefix("data:image/png;base64,"))
    assert struct.unpack(">II", raw[16:24]) == (3, 2)
    place = raw.index(b"IDAT")
    (length,) = struct.unpack(">I", raw[place - 4 : place])
    rows = zlib.decompress(raw[place + 4 : place + 4 + length])
    assert list(rows) == [0, 0, 16, 32, 0, 24, 8, 16]
    matplotlib_image = pytest.importorskip("matplotlib.image")
    pixels = matplotlib_image.imread(io.BytesIO(raw))
    assert pixels.shape == (2, 3, 4)
    assert pixels[0, :, 3].tolist() == [1.0, 0.0, 1.0]
    for draw in (png.grey_image, png.share_image):
        one = base64.b64decode(draw(np.eye(4)).partition(",")[2])
        assert matplotlib_image.imread(io.BytesIO(one)).shape[:2] == (4, 4)


def test_who_is_an_image(digits):
    X = digits[0]
    generic = [f"feature {j}" for j in range(64)]
    assert portraits.guess_shape(X, generic) == (8, 8)
    pixels = [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
    assert portraits.guess_shape(sparse.csr_array(X), pixels) == (8, 8)
    assert portraits.guess_shape(X, [f"income {chr(97 + j % 26)}" for j in range(64)]) is None
    rng = np.random.default_rng(0)
    assert portraits.guess_shape(rng.normal(size=(50, 64)), generic) is None
    assert portraits.guess_shape(X[:, rng.permutation(64)], generic) is None
    assert portraits.guess_shape(X[:, :63], generic[:63]) is None


def test_ticks():
    assert svg.nice_ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert svg.nice_ticks(3.0, 3.0) == [3.0]
    assert svg.number(1234567.0) == "1.23e6"
    assert svg.number(-0.00001) == "−1e−5"
    assert svg.number(2500.0) == "2,500"
    point = Curve(np.array([0.0]), np.array([np.nan]), "blue")
    chart = svg.chart_svg(Chart("", "x & y", "", curves=(point,), words='"<'))
    Reader(chart)
    assert "x &amp; y" in chart


def test_one_record_is_drawn_by_both():
    """matplotlib and the SVG writer draw the same record: same places, up to each one's scale."""
    x = np.array([1.0, 10.0, 100.0])
    chart = Chart(
        "",
        "x",
        "y",
        curves=(Curve(x, np.array([1.0, np.inf, 3.0]), "blue", "seen"),),
        rules=(Rule(2.0, "two"),),
        x_log=True,
        y_range=(0.0, 4.0),
    )
    drawn = svg.chart_svg(chart)
    places = re.search(r'class="line blue" d="M([\d. L]+)"', drawn)[1].split("L")
    (left, low), (right, high) = [tuple(map(float, place.split())) for place in places]
    (rule,) = [float(at) for at in re.findall(r'class="rule" d="M52 ([\d.]+)H', drawn)]
    assert rule == pytest.approx((low + high) / 2, abs=0.1)
    assert left < right
    assert "two" in drawn
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, ax = plt.subplots()
    draw_chart(chart, ax)
    (line, ruler) = ax.lines
    assert line.get_ydata()[[0, 2]].tolist() == [1.0, 3.0]
    assert list(ruler.get_ydata()) == [2.0, 2.0]
    assert ax.get_xscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["seen"]
    plt.close(figure)
    bars = Bars(np.arange(4.0), np.array([1, 0, 2]), "orange")
    drawn = svg.chart_svg(Chart("", "", "", bars=(bars,)))
    assert drawn.count('class="bar orange"') == 2


@pytest.mark.parametrize("name", ["usps", "letter"])
def test_real_data(name):
    folder = os.environ.get("POLYMARGIN_DATA_DIR")
    path = Path(folder or ".") / f"{name}.npz"
    if not folder or not path.is_file():
        pytest.skip(f"POLYMARGIN_DATA_DIR has no {name}.npz")
    with np.load(path) as data:
        X, y, test = data["X"][:], data["y"], data["test_idx"]
        train = data["train_idx"][::5]
    model = make_pipeline(
        StandardScaler(), MultiPrototypeSVC(3, C=0.03, random_state=0, max_time=10)
    )
    quiet(model, X[train], y[train])
    page = read(render_report(model, X[test], y[test], X_train=X[train], y_train=y[train]))
    assert bool([image for image in page.images if "Example" in image["alt"]]) == (name == "usps")
