"""Columns of a table: which plan makes numbers of them."""

import numpy as np
import pytest
from table_cases import messy, write

from polymargin import DataFileError
from polymargin.datasets import ColumnSpec, Wanted, read_data
from polymargin.tables.column_plan import plan_columns
from polymargin.tables.table_columns import TableColumns


def test_the_plan_of_a_messy_table(tmp_path):
    data = read_data(write(tmp_path, messy()))
    plan = plan_columns(data.columns)
    assert {c.name: c.kind for c in plan.columns} == {
        "id": "left out",
        "n": "number",
        "gap": "number",
        "when": "date",
        "sure": "category",
        "city": "category",
        "note": "text",
        "same": "left out",
        "late": "category",
    }
    why = {c.name: c.why for c in plan.columns}
    assert "numbers the rows" in why["id"]
    assert "20 missing" in why["gap"]
    assert "day/month/year" in why["when"]
    assert "4 rare ones taken together" in why["city"]
    asked = plan_columns(data.columns, {"id": "number", "note": "ignore", "n": "category"})
    assert {c.name: c.kind for c in asked.columns} | {"id": "number"} == {
        c.name: c.kind for c in asked.columns
    }
    with pytest.raises(ValueError, match="no column 'nothere'"):
        plan_columns(data.columns, {"nothere": "text"})


def test_encoded_columns_against_plain_numpy(tmp_path):
    data = read_data(write(tmp_path, messy()))
    plan = plan_columns(data.columns, {"note": "ignore", "late": "ignore"})
    raw = plan.matrix(data.columns)
    from sklearn.preprocessing import StandardScaler

    encoder = plan.encoder(StandardScaler())
    X = encoder.fit_transform(raw)
    X = X.toarray() if hasattr(X, "toarray") else X
    columns = {c.name: c.values for c in data.columns}
    n = columns["n"]
    np.testing.assert_allclose(X[:, 0], (n - n.mean()) / n.std())
    gap = columns["gap"].copy()
    is_gap = np.isnan(gap)
    gap[is_gap] = np.median(gap[~is_gap])
    names = encoder.get_feature_names_out().tolist()
    filled = X[:, names.index("numbers with gaps__x1")]
    np.testing.assert_allclose(filled, (gap - gap.mean()) / gap.std())
    flag = X[:, names.index("numbers with gaps__missingindicator_x1")]
    assert ((flag > 0) == is_gap).all()
    towns = [k for k, name in enumerate(names) if "town" in name]
    assert X[:, towns].sum(axis=1).tolist() == [0.0 if i % 50 == 0 else 1.0 for i in range(200)]
    days = raw[:, [c.name for c in plan.kept].index("when")].astype(float)
    assert days[0] == (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype(int)


def test_table_columns_takes_any_table():
    columns = [("n", "number", None), ("d", "date", "%d.%m.%Y"), ("c", "category", None)]
    step = TableColumns(columns).fit(None)
    rows = [[1.5, "01.02.1970", "x"], [None, None, None], ["2", "03.01.1970", True]]
    expected = [[1.5, 31.0, "x"], [None, None, ""], [2.0, 2.0, "true"]]

    def check(table):
        found = step.transform(table)
        for one, wanted in zip(found.tolist(), expected, strict=True):
            for a, b in zip(one, wanted, strict=True):
                assert a == b or (b is None and np.isnan(a))

    check(np.array(rows, dtype=object))
    check({"c": ["x", None, True], "more": [1, 2, 3], "n": [1.5, None, "2"],
           "d": ["01.02.1970", None, "03.01.1970"]})  # fmt: skip
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows, columns=["n", "d", "c"], dtype=object)
    check(frame[["c", "d", "n"]])
    with pytest.raises(ValueError, match="lacks the column 'd'"):
        step.transform(frame[["c", "n"]])
    with pytest.raises(ValueError, match="'red' is not a number"):
        step.transform({"n": ["red"], "d": [None], "c": [None]})


def test_columns_for_a_model(tmp_path):
    path = write(tmp_path, "c,n,l\nx,1,a\n7,2,b\n")
    wanted = Wanted(
        2, ["n", "c"], "l", columns=[ColumnSpec("n", "number"), ColumnSpec("c", "text")]
    )
    data = read_data(path, wanted=wanted)
    assert [c.values.tolist() for c in data.columns] == [[1.0, 2.0], ["x", "7"]]
    with pytest.raises(DataFileError, match=r"line 3: column 'n': 'two' is not a number"):
        read_data(write(tmp_path, "c,n,l\nx,1,a\n7,two,b\n"), wanted=wanted)
    with pytest.raises(DataFileError, match="lacks 1 of the 2 feature columns of the model: 'n'"):
        read_data(write(tmp_path, "c,m,l\nx,1,a\n"), wanted=wanted)


def test_measurements_are_no_identifiers():
    from polymargin.tables.column_plan import names_rows

    values = np.random.default_rng(0).normal(size=50)
    assert not names_rows("id", values)  # no whole numbers
    assert not names_rows("width", np.round(1000 * values))
    assert not names_rows("idea", np.random.default_rng(0).permutation(50) * 2.0)
    assert not names_rows("id", np.repeat(np.arange(25.0), 2))  # a speaker with two rows
    assert names_rows("row", np.arange(50.0))
