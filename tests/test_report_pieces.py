"""What a report is made of: models that run inside the page, pictures, words."""

import base64
import io
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from conftest import make_overlapping
from report_pages import (
    MODELS,
    Reader,
    digit_model,
    digits,
    play_of,
    quiet,
    read,
    table_of,
)
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from polymargin import (
    MulticlassSVC,
    MultiPrototypeSVC,
    explain,
    render_report,
)
from polymargin.export.model_record import ExportModel
from polymargin.plots import (
    RiskCoverageDisplay,
)
from polymargin.plots.chart import Bars, Chart, Curve, Rule, draw_chart
from polymargin.report import facts, measures, png, portraits, svg

__all__ = ["digit_model", "digits"]  # fixtures


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


def test_large_models_are_not_embedded():
    X, y = make_overlapping(400, 700)
    model = MulticlassSVC(kernel="rbf", C=10.0, tol=0.1).fit(X, y)
    assert model.support_vectors_.size > 150_000  # more than half a megabyte in single precision
    page = render_report(model, X, y)
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
