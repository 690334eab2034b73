"""How tests of reports read a page, and the models that they share."""

import base64
import hashlib
import html
import json
import re
import warnings
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polymargin import (
    MACHINES,
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
)

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
