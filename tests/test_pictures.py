"""Pictures: the records behind them, and that every one can be drawn."""

import warnings

import numpy as np
import pytest
from conftest import make_overlapping
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import LinearSVC

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, MultiPrototypeSVCCV
from polymargin.estimators.inspection import dissect, encode_labels, margin_target, prototypes_of
from polymargin.plots import (
    ConfusionDisplay,
    DecisionRegionDisplay,
    HistoryDisplay,
    MarginDistributionDisplay,
    PrototypeImagesDisplay,
)
from polymargin.plots.style import class_colours, class_markers, short, ticks_of

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

MODELS = {
    "cs": MulticlassSVC(random_state=0),
    "ww": MulticlassSVC(machine="ww", random_state=0),
    "msvm2": MulticlassSVC(machine="msvm2", random_state=0),
    "rbf": MulticlassSVC(kernel="rbf", random_state=0),
    "prototypes": MultiPrototypeSVC(2, random_state=0),
    "kernel prototypes": MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    "search": MultiPrototypeSVCCV(n_prototypes=(1, 2), Cs=(0.1, 1.0), cv=2, random_state=0),
    "hulls": ConvexHullSVC(eta=0.2),
    "linear hulls": ConvexHullSVC(eta=0.1, kernel="linear"),
    "pipeline": make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)),
    "grid": GridSearchCV(MulticlassSVC(random_state=0), {"C": [0.1, 1.0]}, cv=2),
}


matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    X, y = make_overlapping()
    y = np.array(["no", "yes", "perhaps", "never"])[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[request.param].fit(X, y), X, y


# -- every estimator ---------------------------------------------------------------------------


def test_every_estimator_has_its_pictures(fitted):
    model, X, y = fitted
    confusion = ConfusionDisplay.from_estimator(model, X, y)
    expected = confusion_matrix(y, model.predict(X), labels=model.classes_)
    np.testing.assert_array_equal(confusion.counts, expected)
    margins = MarginDistributionDisplay.from_estimator(model, X, y)
    right = model.predict(X) == y
    assert ((margins.margins > 0) <= right).all()
    assert margins.n_wrong + margins.n_slack + margins.n_clear == len(y)
    history = HistoryDisplay.from_estimator(model, x="iteration")
    assert len(history.axes_) == len(history.quantities)
    assert len(history.seconds) == len(history.gap) > 0
    regions = DecisionRegionDisplay.from_estimator(model, X, y, resolution=20)
    assert regions.winner.shape == (20, 20)
    assert 0.0 < regions.agreement <= 1.0
    for display in (confusion, margins, history, regions):
        assert display.ax_.figure is display.figure_
        if type(model) in (MulticlassSVC, MultiPrototypeSVC) and not hasattr(model, "coef_"):
            display.figure_.canvas.draw()


def test_two_classes(fitted):
    model, X, y = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = type(model)(**model.get_params(deep=False)).fit(X, np.where(y == "no", "a", "b"))
    y = np.where(y == "no", "a", "b")
    margins = MarginDistributionDisplay.record(model, X, y)
    sign = np.where(y == "b", 1.0, -1.0)
    np.testing.assert_allclose(margins.margins, sign * model.decision_function(X))
    regions = DecisionRegionDisplay.record(model, X, y, resolution=15)
    assert set(np.unique(regions.winner)) <= {0, 1}
    assert ConfusionDisplay.record(model, X, y).counts.shape == (2, 2)


# -- prototypes as images ----------------------------------------------------------------------


def test_images_of_prototypes(digits):
    X, y = digits
    model = MultiPrototypeSVC(3, C=0.3, random_state=0).fit(X, y)
    found = PrototypeImagesDisplay.from_estimator(model)
    np.testing.assert_array_equal(found.images.reshape(30, 64), model.prototypes_)
    np.testing.assert_array_equal(found.alive, model.alive_)
    assert [len(row) for row in found.layout()] == [3] * 10
    one = PrototypeImagesDisplay.from_estimator(MulticlassSVC(C=0.1).fit(X, y), shape=(4, 16))
    assert one.images.shape == (10, 4, 16)
    assert [r for row in one.layout() for r in row] == list(range(10))
    hull = ConvexHullSVC(kernel="linear", eta=0.2).fit(X, y)
    points = PrototypeImagesDisplay.from_estimator(hull, scale="all")
    np.testing.assert_array_equal(points.images.reshape(10, 64), hull.prototypes_)
    assert points.are_points


def test_images_behind_steps(digits):
    X, y = digits
    scaled = make_pipeline(StandardScaler(), MulticlassSVC(C=0.01)).fit(X, y)
    found = PrototypeImagesDisplay.record(scaled)
    np.testing.assert_array_equal(found.images.reshape(10, 64), scaled[-1].coef_)
    reduced = make_pipeline(PCA(20, random_state=0), MulticlassSVC(C=0.1)).fit(X, y)
    W = PrototypeImagesDisplay.record(reduced).images.reshape(10, 64)
    scores = (X - X.mean(axis=0)) @ W.T + reduced[-1].intercept_
    np.testing.assert_allclose(scores, reduced.decision_function(X), atol=1e-9)
    bent = make_pipeline(
        QuantileTransformer(n_quantiles=20), PCA(20, random_state=0), MulticlassSVC(C=0.1)
    ).fit(X, y)
    with pytest.raises(ValueError, match="not affine"):
        PrototypeImagesDisplay.record(bent)


def test_images_of_two_classes(digits):
    X, y = digits
    model = MulticlassSVC().fit(X, y > 4)
    found = PrototypeImagesDisplay.record(model)
    difference = found.images[1] - found.images[0]
    np.testing.assert_allclose(difference.ravel(), model.coef_[0])


@pytest.mark.parametrize("shape", [(3, 3), (8,), "ab", (64, 2), (-8, -8)])
def test_wrong_shapes(digits, shape):
    X, y = digits
    with pytest.raises(ValueError, match="shape"):
        PrototypeImagesDisplay.record(MulticlassSVC(max_iter=1000).fit(X, y), shape=shape)


def test_no_images(digits):
    X, y = digits
    with pytest.raises(ValueError, match="no square"):
        PrototypeImagesDisplay.record(MulticlassSVC().fit(X[:, :60], y))
    with pytest.raises(ValueError, match="kernel='linear'"):
        PrototypeImagesDisplay.record(MulticlassSVC(kernel="rbf").fit(X, y))
    with pytest.raises(ValueError, match="scale"):
        PrototypeImagesDisplay.from_estimator(MulticlassSVC().fit(X, y), scale="some")


# -- history -----------------------------------------------------------------------------------


def test_history_of_one_axes(digits):
    X, y = digits
    model = MultiPrototypeSVC(2, C=0.3, random_state=0).fit(X, y)
    figure, axes = plt.subplots(1, 2)
    found = HistoryDisplay.from_estimator(model, ax=axes[0])
    assert found.quantities == ("energy", "gap", "temperature")
    assert found.figure_ is figure
    assert len(found.axes_) == 3
    alone = HistoryDisplay.from_estimator(model, quantities="gap", ax=axes[1])
    assert alone.ax_ is axes[1]
    loose = figure.add_axes((0.1, 0.1, 0.5, 0.5))
    assert len(HistoryDisplay.from_estimator(model, ax=loose).axes_) == 3
    low, high = found.range_of_objective()
    assert low < model.history_["energy"].min() < high


def test_history_refusals(digits):
    X, y = digits
    model = MulticlassSVC().fit(X, y)
    for options, message in (
        ({"x": "hours"}, "x must be"),
        ({"quantities": ["energy"]}, "quantities must be among"),
        ({"quantities": []}, "empty"),
        ({"ax": plt.subplots(1, 3)[1]}, "3 axes for 2"),
    ):
        with pytest.raises(ValueError, match=message):
            HistoryDisplay.from_estimator(model, **options)
    with pytest.raises(NotFittedError, match="history_"):
        HistoryDisplay.record(LinearSVC().fit(X, y))


def test_history_of_an_unknown_primal():
    nothing = np.array([np.inf, np.inf])
    when = np.arange(2.0)
    display = HistoryDisplay(when, when, nothing, np.array([0.0, 1.0]), nothing)
    display.plot().figure_.canvas.draw()
    low, high = display.range_of_objective()
    assert low < high


# -- confusion ---------------------------------------------------------------------------------


def test_confusion_knows_labels_the_model_does_not():
    X, y = make_overlapping()
    model = MulticlassSVC().fit(X, y)
    strange = y.copy()
    strange[0] = 9
    found = ConfusionDisplay.record(model, X, strange)
    assert found.labels.tolist() == [0, 1, 2, 3, 9]
    assert found.counts[4].sum() == 1
    assert found.counts[:, 4].sum() == 0


def test_confusion_shares_and_worst():
    found = ConfusionDisplay.record_predictions(
        ["a", "a", "a", "b", "b", "c"], ["a", "b", "b", "b", "c", "c"], labels=["c", "a", "b", "d"]
    )
    assert found.labels.tolist() == ["c", "a", "b", "d"]
    np.testing.assert_allclose(found.row_shares[1], [0, 1 / 3, 2 / 3, 0])
    assert np.isnan(found.row_shares[3]).all()
    assert found.worst(1) == [("a", "b", 2, 2 / 3)]
    assert len(found.worst()) == 2
    assert (found.n_errors, found.n_examples) == (3, 6)


@pytest.mark.parametrize("n_classes", [1, 2, 26, 100, 1000])
def test_confusion_of_many_classes(n_classes):
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=3000)
    shown = ConfusionDisplay.from_predictions(y, (y + (rng.random(3000) < 0.1)) % n_classes)
    assert len(shown.ax_.get_xticks()) <= 30
    shown.figure_.canvas.draw()


def test_confusion_refusals():
    with pytest.raises(ValueError, match="y_pred has 1"):
        ConfusionDisplay.from_predictions([1, 2], [1])
    with pytest.raises(ValueError, match="empty"):
        ConfusionDisplay.from_predictions([], [])
    X, y = make_overlapping()
    model = MulticlassSVC().fit(X, y)
    with pytest.raises(ValueError, match="y: the model knows none"):
        ConfusionDisplay.record(model, X, [str(label) for label in y])
    with pytest.raises(ValueError, match="y has 3 labels for 60 rows"):
        ConfusionDisplay.record(model, X, y[:3])
    with pytest.raises(ValueError, match="no rows"):
        ConfusionDisplay.record(model, X[:0], y[:0])
    with pytest.raises(NotFittedError):
        ConfusionDisplay.record(MulticlassSVC(), X, y)
    with pytest.raises(TypeError, match="model must be"):
        ConfusionDisplay.record("model", X, y)


# -- margins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2", "adm", "atm", "ats", "reinforced"])
def test_who_has_no_slack_has_the_target_margin(machine):
    X, y = make_overlapping()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MulticlassSVC(machine=machine, tol=1e-6, C=1.0).fit(X, y)
    found = MarginDistributionDisplay.record(model, X, y)
    slack = np.maximum(model.slacks(X, y), 0.0).reshape(len(y), -1).max(axis=1)
    free = slack <= 1e-9
    assert (found.margins[free] >= found.target - 1e-6).all()
    if machine in ("cs", "ww"):
        np.testing.assert_array_equal(found.margins < found.target - 1e-9, ~free)


def test_targets():
    X, y = make_overlapping()
    assert margin_target(MulticlassSVC(machine="llw").fit(X, y)) == pytest.approx(4 / 3)
    assert margin_target(MulticlassSVC(machine="mmr").fit(X, y)) is None
    assert margin_target(ConvexHullSVC(eta=0.2).fit(X, y)) is None
    assert margin_target(LinearSVC().fit(X, y)) is None


def test_histogram_keeps_everyone():
    rng = np.random.default_rng(0)
    margins = np.r_[rng.normal(1.0, 1.0, size=999), -50.0, 0.0, np.nan]
    found = MarginDistributionDisplay(margins, 1.0)
    counts, edges = found.histogram(40)
    assert counts.sum() == 1001
    assert found.n_unknown == 1
    assert np.isclose(edges, 0.0).any()
    assert np.isclose(edges, 1.0).any()
    assert counts[edges[1:] <= 1e-9].sum() == found.n_wrong
    assert edges[0] > -10
    equal, _ = MarginDistributionDisplay(np.zeros(5)).histogram()
    assert equal.sum() == 5


def test_margins_of_given_scores():
    scores = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, 3.0]])
    shown = MarginDistributionDisplay.from_predictions(["a", "b"], scores, classes=["a", "b", "c"])
    assert shown.margins.tolist() == [1.5, -2.0]
    with pytest.raises(ValueError, match="3 columns for 2"):
        MarginDistributionDisplay.from_predictions(["a", "b"], scores)
    with pytest.raises(ValueError, match="2 rows for 3"):
        MarginDistributionDisplay.from_predictions(["a", "b", "c"], scores)


# -- parts and style ---------------------------------------------------------------------------


def test_dissection_of_nested_models():
    X, y = make_overlapping()
    inner = make_pipeline(StandardScaler(), MulticlassSVC())
    outer = make_pipeline(PCA(3), GridSearchCV(inner, {"multiclasssvc__C": [1.0]}, cv=2)).fit(X, y)
    parts = dissect(outer)
    assert len(parts.steps) == 2
    assert len(parts.searches) == 1
    assert isinstance(parts.last, MulticlassSVC)
    assert prototypes_of(outer).weights.shape == (4, 3)
    assert DecisionRegionDisplay.record(outer, X, y, resolution=5).winner.shape == (5, 5)


def test_labels_are_compared_by_kind():
    classes = np.array([1, 2, 3])
    assert encode_labels(classes, [1.0, 3.0, 7.0]).tolist() == [0, 2, -1]
    with pytest.raises(ValueError, match="labels: the model knows none"):
        encode_labels(classes, ["1", "2"], "labels")
    with pytest.raises(ValueError, match="one label per example"):
        encode_labels(classes, [[1, 2], [2, 3]])


def test_many_classes_keep_apart():
    for count in (2, 8, 26, 100):
        colours = class_colours(count)
        markers = class_markers([f"class {k}" for k in range(count)])
        assert len(set(zip(colours, markers, strict=True))) == count
    assert class_markers(range(10))[3] == r"$\mathdefault{3}$"
    assert class_markers("ab") == ["o", "s"]
    assert ticks_of(1000, 30) == list(range(0, 1000, 50))
    assert ticks_of(5, 30) == [0, 1, 2, 3, 4]
    assert short("a" * 50).endswith("…")


def test_energy_curve_is_not_cut():
    energy = np.array([6.0, 0.5, 0.4])
    steps = np.arange(3.0)
    display = HistoryDisplay(steps, steps, energy, energy, energy, energy)
    low, high = display.plot().axes_[0].get_ylim()
    assert low <= 0.4 < 6.0 <= high
    assert display.range_of_objective()[1] >= 6.0


def test_eleven_classes_have_different_hues():
    from matplotlib.colors import to_rgb

    colours = np.array([to_rgb(colour) for colour in class_colours(11)])
    apart = np.abs(colours[:, None] - colours[None]).max(axis=2)
    assert apart[~np.eye(11, dtype=bool)].min() > 0.2


def test_names_above_images_are_whole():
    names = np.array(["ankle boot black", "trouser kind 2"])
    display = PrototypeImagesDisplay(
        np.ones((2, 8, 8)), np.arange(2), np.ones(2, dtype=bool), names
    ).plot()
    shown = [text.get_text().replace("\n", " ") for text in display.ax_.texts]
    assert shown == names.tolist()
