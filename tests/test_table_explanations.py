"""Contributions in the columns of raw tables, from Python and from the command line."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cli_calls import invoke, refused
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import polymargin
from polymargin import MulticlassSVC, MultiPrototypeSVC, certified_radius, counterfactual, explain


def make_table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    age = np.where(rng.random(n) < 0.1, np.nan, 40.0 + 10.0 * y + 8.0 * rng.standard_normal(n))
    colour = np.where(rng.random(n) < 0.7, np.array(["red", "green", "blue"])[y], "grey")
    words = np.array(["cheap and cheerful", "solid quiet engine", "fast red sports car"])
    size = rng.standard_normal(n) + 0.3 * y
    table = pd.DataFrame({"age": age, "colour": colour, "note": words[y], "size": size})
    table.loc[rng.random(n) < 0.5, "note"] = "nothing much to say"
    return table, np.array(["low", "middle", "high"])[y]


@pytest.fixture(scope="module")
def table():
    return make_table()


def encoder(sparse=0.3):
    return ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
                ["age"],
            ),
            ("words", TfidfVectorizer(), "note"),
            ("kinds", OneHotEncoder(min_frequency=10, drop="first"), ["colour"]),
            ("rest", "passthrough", ["size"]),
        ],
        sparse_threshold=sparse,
    )


@pytest.mark.parametrize("kind", [MulticlassSVC, MultiPrototypeSVC])
@pytest.mark.parametrize("sparse", [0.0, 1.0])
def test_sums_of_the_features_of_a_column(table, kind, sparse):
    X, y = table
    model = make_pipeline(encoder(sparse), kind(C=0.3, random_state=0)).fit(X, y)
    found, each = explain(model, X), explain(model, X, by="features")
    assert found.kind == "columns"
    assert found.feature_names == ("age", "colour", "note", "size")
    assert each.kind == "features"
    assert sp.issparse(each.contributions) == (sparse == 1.0)
    parts = each.contributions.toarray() if sparse == 1.0 else each.contributions
    of = {"age": "numbers__", "note": "words__", "colour": "kinds__", "size": "rest__"}
    for k, name in enumerate(found.feature_names):
        mine = [j for j, f in enumerate(each.feature_names) if f.startswith(of[name])]
        assert len(mine) >= 1
        np.testing.assert_allclose(found.contributions[:, k], parts[:, mine].sum(axis=1))
    np.testing.assert_allclose(found.contributions.sum(axis=1) + found.constant, found.lead)
    # against another row of the table, words and all
    other = explain(model, X.iloc[:5], reference=X.iloc[[7]])
    np.testing.assert_allclose(other.contributions.sum(axis=1) + other.constant, other.lead)


def test_what_mixes_columns_stays_features(table):
    X, y = table
    numbers = X[["size"]].assign(more=X["size"] ** 2)
    model = make_pipeline(StandardScaler(), PCA(1), MulticlassSVC("ww")).fit(numbers, y)
    assert explain(model, numbers).kind == "features"
    plain = make_pipeline(SimpleImputer(), MulticlassSVC("ww")).fit(numbers, y)
    assert explain(plain, numbers).feature_names == ("size", "more")
    with pytest.raises(ValueError, match="by must be 'columns' or 'features'"):
        explain(plain, numbers, by="rows")


def test_no_distance_in_a_table(table):
    X, y = table
    model = make_pipeline(encoder(), MulticlassSVC()).fit(X, y)
    for function in (certified_radius, counterfactual):
        with pytest.raises(ValueError, match="ColumnTransformer"):
            function(model, X)


def test_the_command(table, tmp_path):
    X, y = table
    X.assign(label=y).to_csv(tmp_path / "table.csv", index=False)
    model = tmp_path / "table.pm"
    invoke("train", tmp_path / "table.csv", "-m", "CS", "-c", "0.3", "-o", model, "-q")
    result = invoke("explain", model, tmp_path / "table.csv", "--json")
    record = json.loads(result.stdout)
    assert record["contributions_of"] == "columns"
    assert "no distance" in record["radius_reason"]
    names = {name for row in record["rows"] for name, _ in row["top"]}
    assert names == {"age", "colour", "note", "size"}
    fitted = polymargin.load(model)
    one = explain(fitted, X.iloc[[3]])
    assert record["rows"][3]["top"] == [[name, value] for name, value in one.top(0, 10)]
    gap = int(np.flatnonzero(X["age"].isna())[0])
    text = invoke("explain", model, tmp_path / "table.csv", "--row", gap + 1).stdout
    assert f"colour = {X['colour'][gap]}" in text
    assert "age is missing" in text
    assert "contributions of columns to the lead" in text
    many = invoke("explain", model, tmp_path / "table.csv").stdout
    assert "mainly because of" in many
    assert "colour = " in many
    line = refused("explain", model, tmp_path / "table.csv", "--row", 1, "--target", "low")
    assert "no radius and no least change" in line
