"""Reports in a real browser: what readers can do, on wide and narrow screens, light and dark."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cli_calls import invoke
from sklearn.datasets import load_digits, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_table_explanations import make_table

from polymargin import MulticlassSVC, MultiPrototypeSVC, explain, load, write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("chromium and chromedriver are not installed", allow_module_level=True)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PHONE = (1200, 900), (390, 800)
EVIL = ['</script><script>document.title="broken"</script>', "<!-- <script>", "a & <b>bold</b>"]


class Page:
    """A browser with a few words for tests."""

    def __init__(self, browser):
        self.browser = browser

    def load(self, path, size=WIDE, dark=False, script=True):
        command = self.browser.execute_cdp_cmd
        command("Emulation.setScriptExecutionDisabled", {"value": not script})
        width, height = size
        look = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        command("Emulation.setEmulatedMedia", {"features": [look]})
        self.browser.get(path.as_uri())
        if script:
            waiting = WebDriverWait(self.browser, 30)
            waiting.until(lambda _: self.run("return document.documentElement.dataset.ready"))
        return self

    def run(self, code, *given):
        return self.browser.execute_script(code, *given)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def is_seen(self, selector):
        code = "return document.querySelector(arguments[0]).getClientRects().length > 0"
        return self.run(code, selector)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def slide(self, selector, value):
        self.run(
            "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
            "one.dispatchEvent(new Event('input'))",
            selector,
            value,
        )

    def check_quiet(self):
        assert self.browser.get_log("browser") == []
        assert self.run("return document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def page():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(DRIVER)
        try:
            browser = webdriver.Chrome(options=options, service=service)
        except Exception as error:
            pytest.skip(f"chromium does not start: {error}")
        yield Page(browser)
        browser.quit()


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    model = MultiPrototypeSVC(2, C=0.3, random_state=0).fit(X[::3], y[::3])
    path = tmp_path_factory.mktemp("digits") / "report.html"
    return model, X[1::3], y[1::3], write_report(model, X[1::3], y[1::3], path)


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    data = load_wine(as_frame=True)
    X, y = data.data, np.array(EVIL)[data.target]
    X = X.rename(columns={"alcohol": EVIL[0], "hue": EVIL[1]})
    machine = MulticlassSVC(C=0.01, probabilities="temperature", random_state=0)
    model = make_pipeline(StandardScaler(), machine).fit(X[::2], y[::2])
    path = tmp_path_factory.mktemp("wine") / "report.html"
    return model, X[1::2], y[1::2], write_report(model, X[1::2], y[1::2], path)


@pytest.fixture(scope="module")
def raw_table(tmp_path_factory):
    """A model of a table with categories, gaps and text, trained by the command."""
    folder = tmp_path_factory.mktemp("table")
    X, y = make_table()
    X = X.rename(columns={"size": EVIL[0]})
    X.assign(label=y).to_csv(folder / "table.csv", index=False)
    settings = ["-m", "CS", "-c", "0.3", "--text", "note"]
    invoke("train", folder / "table.csv", *settings, "-o", folder / "m.pm", "-q")
    model = load(folder / "m.pm")
    return model, X, y, write_report(model, X, y, folder / "report.html")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["digits", "wine", "raw_table"])
def test_every_look(page, request, name, size, dark):
    path = request.getfixturevalue(name)[3]
    page.load(path, size, dark)
    assert page.is_seen("#play")
    colour = page.run("return getComputedStyle(document.body).backgroundColor")
    shade = [int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    assert (max(shade) < 60) == dark
    page.check_quiet()


def test_without_script(page, digits):
    page.load(digits[3], script=False)
    source = page.browser.page_source
    page.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "Confusion matrix" in source
    assert "Prototypes" in source
    for hidden in ("#play", "#reject-controls", "#cell-examples"):
        assert not page.is_seen(hidden)
    assert page.is_seen("#reject svg")


def test_labels_are_those_of_python(page, wine, digits):
    for model, X, _, path in (wine, digits):
        page.load(path)
        names = page.run(
            "return JSON.parse(document.getElementById('play-data').textContent).play.examples.name"
        )
        rows = [int(name) for name in names]
        X = X.loc[rows] if hasattr(X, "loc") else X[rows]
        predicted = [str(label)[:40] for label in model.predict(X)]
        shown = []
        for k in range(len(rows)):
            page.run(
                "const one = document.getElementById('play-example'); one.value = arguments[0];"
                "one.dispatchEvent(new Event('change'))",
                str(k),
            )
            shown.append(page.text("#play-label"))
        assert [label.rstrip("…")[:39] for label in shown] == [label[:39] for label in predicted]


def test_sliders_move_the_model(page, wine):
    model, X, _, path = wine
    page.load(path)
    name = page.run(
        "return JSON.parse(document.getElementById('play-data').textContent).play.examples.name[0]"
    )
    row = X.loc[[int(name)]].copy()
    assert page.run("return document.querySelectorAll('#play-inputs input').length") == 13
    for value in (X["proline"].min(), X["proline"].median(), X["proline"].max()):
        row["proline"] = value
        page.slide("#play-inputs label:nth-child(13) input", float(value))
        why = explain(model, row)
        assert page.text("#play-label").rstrip("…")[:39] == str(why.label[0])[:39]
        lead = float(page.text("#play-lead").split()[-1].replace("−", "-"))
        assert lead == pytest.approx(why.lead[0], rel=0.01, abs=0.002)
        chance = float(page.text("#play-scores li output").split()[-2])
        assert chance == pytest.approx(100 * model.predict_proba(row).max(), abs=0.1)
        best, contribution = why.top(0, 1)[0]
        shown = page.text("#play-why li output")
        assert float(shown.replace("−", "-")) == pytest.approx(contribution, rel=0.01, abs=0.002)
        assert page.text("#play-why li span")[:30] == " ".join(best.split())[:30]
    predicted = model.predict(X)
    other = X.iloc[np.flatnonzero(predicted != why.label[0])[0]]
    for j, value in enumerate(other):
        page.slide(f"#play-inputs label:nth-child({j + 1}) input", float(value))
    assert page.text("#play-label")[:39] == model.predict(other.to_frame().T)[0][:39]
    page.click("#play-reset")
    assert page.run("return document.querySelector('#play-example').value") == "0"
    page.check_quiet()


def test_columns_of_a_table(page, raw_table):
    model, X, _, path = raw_table
    page.load(path)
    play = page.run("return JSON.parse(document.getElementById('play-data').textContent).play")
    row = X.loc[[int(play["examples"]["name"][0])]].copy()
    kinds = page.run(
        "return [...document.querySelectorAll('#play-inputs label')].map((one) =>"
        "[one.querySelector('span').textContent, one.children[1].localName])"
    )
    assert dict(kinds)["age"] == "input"
    assert dict(kinds)["colour"] == "select"
    assert "note" not in dict(kinds)
    assert "free text" in page.text("#play-inputs p")
    place = [name for name, _ in kinds].index("colour") + 1
    for colour in ("red", "green", "blue", "grey"):
        row["colour"] = colour
        page.run(
            "const one = document.querySelector(arguments[0]);"
            "one.value = [...one.options].find((o) => o.textContent === arguments[1]).value;"
            "one.dispatchEvent(new Event('change'))",
            f"#play-inputs label:nth-child({place}) select",
            colour,
        )
        why = explain(model, row)
        assert page.text("#play-label") == why.label[0]
        lead = float(page.text("#play-lead").split()[-1].replace("−", "-"))
        assert lead == pytest.approx(why.lead[0], rel=0.01, abs=0.002)
        name, contribution = why.top(0, 1)[0]
        assert page.text("#play-why li span")[:30] == name[:30]
        shown = float(page.text("#play-why li output").replace("−", "-"))
        assert shown == pytest.approx(contribution, rel=0.01, abs=0.002)
    place = [name for name, _ in kinds].index("age") + 1
    row["age"] = 61.0
    page.slide(f"#play-inputs label:nth-child({place}) input", 61.0)
    lead = float(page.text("#play-lead").split()[-1].replace("−", "-"))
    assert lead == pytest.approx(explain(model, row).lead[0], rel=0.01, abs=0.01)
    page.check_quiet()


def test_drawing(page, digits):
    page.load(digits[3])
    before = page.text("#play-lead")
    page.run(
        """const pad = document.querySelector(".pad"), box = pad.getBoundingClientRect();
        const at = (kind, x, y) => pad.dispatchEvent(new PointerEvent(kind, {
          buttons: 1, pointerId: 1, bubbles: true,
          clientX: box.left + x * box.width, clientY: box.top + y * box.height }));
        document.querySelector(".tools button").click();
        at("pointerdown", .55, .1);
        for (let k = 0; k <= 40; k++) at("pointermove", .55, .1 + .8 * k / 40);"""
    )
    assert page.text("#play-lead") != before
    ink = page.run(
        "const pad = document.querySelector('.pad');"
        "return Array.from(pad.getContext('2d').getImageData(0, 0, 8, 8).data)"
    )
    drawn = 1.0 - np.array(ink).reshape(8, 8, 4)[:, :, 0] / 255
    assert page.text("#play-label") == str(digits[0].predict(drawn.reshape(1, 64))[0])
    dark = drawn > 0.5
    assert dark[:, 4].sum() >= 6
    assert not dark[:, :2].any()
    assert page.is_seen("#play-why-image")
    page.check_quiet()


def test_cells_open_their_examples(page, digits):
    model, X, y, path = digits
    page.load(path)
    predicted = model.predict(X)
    wrong = np.flatnonzero(predicted != y)[0]
    a, b = y[wrong], predicted[wrong]
    page.click(f"table.matrix [data-cell='{a},{b}'] button")
    assert page.is_seen("#cell-examples")
    assert page.text("#cell-examples h3") == f"{a} taken for {b}"
    cards = page.run("return document.querySelectorAll('#cell-examples li').length")
    assert cards == min(8, ((y == a) & (predicted == b)).sum())
    page.click("#cell-examples li button")
    assert page.text("#play-label") == str(b)
    page.click("#cell-examples > button")
    assert not page.is_seen("#cell-examples")
    page.check_quiet()


def test_prototypes_show_what_they_win(page, digits, wine):
    model, X, _, path = digits
    page.load(path)
    r = int(page.run("return document.querySelector('[data-prototype]').dataset.prototype"))
    page.click(f"[data-prototype='{r}'] button")
    rows = page.run(
        "const shown = document.querySelectorAll('#prototype-examples li span.soft:first-of-type');"
        "return Array.from(shown,"
        "(one) => one.textContent)"
    )
    assert rows
    won = model.prototype_scores(X).argmax(axis=1)
    assert {won[int(text.removeprefix("row "))] for text in rows} == {r}
    page.load(wine[3])
    page.click("[data-prototype] button")
    assert page.is_seen("#prototype-examples li")
    page.check_quiet()


def test_rejecting(page, digits):
    model, X, y, path = digits
    page.load(path)
    assert page.text("#reject-coverage") == "100.0 %"
    error = np.mean(model.predict(X) != y)
    assert page.text("#reject-risk") == f"{100 * error:.1f} %"
    page.slide("#reject-slider", 40)
    top = np.sort(model.decision_function(X), axis=1)
    lead = top[:, -1] - top[:, -2]
    answered = lead >= float(page.text("#reject-threshold")) - 0.006
    coverage = float(page.text("#reject-coverage").split()[0])
    assert coverage == pytest.approx(100 * answered.mean(), abs=1.5)
    assert coverage < 90
    assert float(page.text("#reject-risk").split()[0]) <= 100 * error
    assert int(page.text("#reject-count")) == round((1 - coverage / 100) * len(y))
    page.check_quiet()


def test_hostile_names_stay_text(page, wine):
    page.load(wine[3])
    assert page.browser.title != "broken"
    assert page.run("return document.querySelectorAll('b b, td b').length") == 0
    assert EVIL[0][:20] in page.text("#play-inputs label span")
    assert page.run("return document.scripts.length") == 2
    page.check_quiet()


def test_foreign_script_is_refused(page, digits, tmp_path):
    """The policy, not luck, keeps out what somebody might add."""
    text = digits[3].read_text(encoding="utf-8")
    changed = text.replace("</body>", '<script>document.title = "broken"</script></body>')
    changed = changed.replace("<h1>", "<h1 onclick=\"document.title = 'broken'\">", 1)
    path = Path(tmp_path) / "changed.html"
    path.write_text(changed, encoding="utf-8")
    page.load(path)
    page.click("h1")
    assert page.browser.title != "broken"
    assert any(
        "Content Security Policy" in line["message"] for line in page.browser.get_log("browser")
    )
