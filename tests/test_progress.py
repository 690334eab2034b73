"""The progress line: what it shows, when it is silent, and that it sees every kind of fit."""

import io
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, MultiPrototypeSVCCV
from polymargin.cli import progress_line
from polymargin.cli.progress_line import FitProgress, ProgressLine, wipe
from polymargin.estimators.callbacks import watched


class Terminal(io.StringIO):
    """A stream that calls itself a terminal and knows when it was written to."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        self.written.set()
        return super().write(text)


PATIENCE = 120.0  # seconds until a line that is drawn five times a second is missed


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    return rng.normal(size=(300, 4)) + 2.0 * np.eye(3, 4)[y], y


def test_silent_unless_a_terminal():
    stream = io.StringIO()
    with ProgressLine("work", stream, delay=0.0) as line:
        line.set(1, 2)
        time.sleep(0.5)
    assert stream.getvalue() == ""


def test_silent_for_short_work(still, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    """However long a busy machine takes for it: the clock stands still."""
    stream = Terminal()
    with ProgressLine("work", stream) as line:
        line.set(1, 2)
        time.sleep(0.5)
    assert stream.getvalue() == ""
    with ProgressLine("work", stream) as line:
        still.pass_by(line.delay)
        assert stream.written.wait(PATIENCE)
    assert "work  0:02" in stream.getvalue()


def test_a_terminal_sees_a_line_that_is_wiped_at_the_end(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressLine("work", stream, delay=0.0) as line:
        line.set(1, 2)
        assert stream.written.wait(PATIENCE)
    text = stream.getvalue()
    assert "\n" not in text
    assert "work  [##########..........]  50 %" in text
    assert "left" in text
    assert text.endswith("\r")
    assert not text.split("\r")[-2].strip()


def test_a_message_finds_a_clean_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressLine("work", stream, delay=0.0) as line:
        line.set(1, 2)
        assert stream.written.wait(PATIENCE)
        wipe()
        stream.write("message\n")
    before = stream.getvalue().partition("message")[0]
    assert before.endswith("\r")
    assert not before.split("\r")[-2].strip()


def test_a_closed_stream_does_no_harm(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    line = ProgressLine("work", stream, delay=0.0)
    with line:
        stream.close()
        line.set(1, 2)
        time.sleep(0.3)
    assert stream.closed


@pytest.mark.parametrize(
    "estimator",
    [
        MulticlassSVC(C=10.0, tol=1e-6, random_state=0),
        MulticlassSVC("ww", kernel="rbf", tol=1e-6, random_state=0),
        MultiPrototypeSVC(2, random_state=0),
        ConvexHullSVC(eta=0.1),
    ],
    ids=lambda e: type(e).__name__,
)
def test_every_estimator_is_watched(problem, estimator, capsys):
    line = ProgressLine("training", enabled=False)
    line.begin_fit(estimator)
    shares = []
    with watched(line.watch), watched(lambda check, snapshot: shares.append(line.share)):
        estimator.fit(*problem)
    assert len(shares) > 0
    assert shares == sorted(shares)
    assert 0.0 <= shares[-1] <= 1.0
    assert "gap" in line.detail
    assert capsys.readouterr().out == ""
    n = len(shares)
    estimator.fit(*problem)
    assert len(shares) == n, "the watcher has left"


def test_searches_are_watched(problem):
    seen = []
    with watched(lambda check, snapshot: seen.append(check)):
        MultiPrototypeSVCCV((1, 2), Cs=(0.1, 1.0), cv=2, n_jobs=2, random_state=0).fit(*problem)
    assert len(seen) > 8


def test_a_watcher_can_stop_a_fit(problem):
    model = MulticlassSVC(C=10.0, tol=1e-9, random_state=0)
    with pytest.raises(KeyboardInterrupt), watched(lambda check, snapshot: True):
        model.fit(*problem)
    assert model.status_ == "interrupted"
    assert model.predict(problem[0]).shape == (300,)


def test_steps_of_a_search():
    line = ProgressLine("tuning", enabled=False)
    line.begin_fit(MulticlassSVC(), 3, 12)
    assert line.share == pytest.approx(0.25)
    assert "fit 4 of 12" in line.line()


def test_annealing_is_measured_by_its_schedule():
    from types import SimpleNamespace

    progress = FitProgress(MultiPrototypeSVC())
    temperatures = progress.temperatures
    for temperature in temperatures:
        progress.see(SimpleNamespace(relative_gap=np.inf, temperature=temperature))
    assert progress.share == pytest.approx(0.9)


def test_clock():
    assert [progress_line.clock(s) for s in (3.2, 65, 3671)] == ["0:03", "1:05", "1:01:11"]


def test_in_a_real_terminal(tmp_path):
    pty = pytest.importorskip("pty")
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(5000, 20)), 3).tolist()
    text = "".join(",".join(map(repr, row)) + f",{k % 4}\n" for k, row in enumerate(rows))
    (tmp_path / "noise.csv").write_text(text)
    ours, theirs = pty.openpty()
    data = str(tmp_path / "noise.csv")
    command = ["-m", "polymargin", "train", data, "-m", "CS", "-k", "rbf", "-c", "1e5"]
    process = subprocess.Popen(
        [sys.executable, *command, "-e", "1e-9", "--max-time", "8"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        seen += more
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"\rtraining" in seen
    assert b"gap " in seen
