"""Tables of words, gaps and dates on the command line: training, prediction, exports, warnings."""

import numpy as np
import pytest
from export_tools import run_c
from table_cases import messy, mistyped, write

from polymargin.datasets import read_data


@pytest.fixture
def tool():
    from click.testing import CliRunner

    from polymargin.cli import main

    def call(*arguments):
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        return result.exit_code, result.stdout, result.stderr

    return call


def test_a_messy_table_from_training_to_prediction(tmp_path, tool):
    path, model = write(tmp_path, messy()), tmp_path / "m.pm"
    code, out, err = tool("train", path, "-m", "CS", "-c", 1, "-o", model)
    assert code == 0, err
    assert "city" in err
    assert "category" in err
    assert "words weighted by tf-idf" in err
    lines = messy().splitlines()
    order = [8, 0, 6, 5, 4, 3, 2, 1, 9]  # other order, one column less
    other = "\n".join(",".join(line.split(",")[k] for k in order) for line in lines) + "\n"
    shuffled = write(tmp_path, other, "other.csv")
    assert tool("predict", model, path)[1] == tool("predict", model, shuffled)[1]
    code, out, err = tool("evaluate", model, shuffled, "--json")
    assert code == 0, err
    import json

    assert json.loads(out)["error"] < 0.05
    assert tool("info", model)[0] == 0
    assert tool("report", model, path, "-o", tmp_path / "r.html")[0] == 0
    code, _, err = tool("predict", model, write(tmp_path, "n,gap\n1,2\n", "less.csv"))
    assert code == 1
    assert "lacks 5 of the 7 feature columns of the model: 'when'" in err
    import polymargin

    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(path)
    expected = tool("predict", model, path)[1].split()
    assert polymargin.load(model).predict(frame).tolist() == expected


def test_the_plan_can_be_changed(tmp_path, tool):
    path = write(tmp_path, messy())
    options = ["-m", "CS", "-c", 1]
    plan = tool("train", path, *options, "--categorical", "n", "--ignore", "note")[2]
    assert any(line.split()[:2] == ["n", "category"] for line in plan.splitlines())
    assert "note" not in plan
    file = write(tmp_path, 'id = "number"\nwhen = "date %m/%d/%Y"\n', "kinds.toml")
    code, _, err = tool("train", path, *options, "--columns", file)
    assert code == 1
    assert "is not a date like '%m/%d/%Y'" in err
    file = write(tmp_path, '{"id": "number", "when": "ignore"}', "kinds.json")
    code, _, err = tool("train", path, *options, "--columns", file)
    assert code == 0
    assert any(line.split()[:2] == ["id", "number"] for line in err.splitlines())
    code, _, err = tool("train", path, *options, "--text", "nothere")
    assert code == 1
    assert "nothere" in err


def test_a_pipeline_made_in_python(tmp_path, tool):
    pd = pytest.importorskip("pandas")
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    import polymargin

    path = write(tmp_path, messy())
    frame = pd.read_csv(path)
    encode = ColumnTransformer(
        [("n", SimpleImputer(), ["n", "gap"]), ("c", OneHotEncoder(), ["city", "sure"])]
    )
    model = make_pipeline(encode, polymargin.MulticlassSVC(random_state=0))
    model.fit(frame[["n", "gap", "city", "sure"]], frame["l"])
    polymargin.save(model, tmp_path / "p.pm")
    code, out, err = tool("predict", tmp_path / "p.pm", path)
    assert code == 0, err
    assert out.split() == model.predict(frame).tolist()


def table_model(tmp_path, tool):
    import polymargin

    path, model = write(tmp_path, messy()), tmp_path / "m.pm"
    code, _, err = tool("train", path, "-m", "CS", "-c", 1, "--ignore", "note", "-o", model)
    assert code == 0, err
    return polymargin.load(model), read_data(path)


def test_exports_of_a_table(tmp_path, tool):
    import json

    from polymargin import export_model

    model, data = table_model(tmp_path, tool)
    raw = {column.name: column.values for column in data.columns}
    scores = model.decision_function(raw)
    export_model(model, tmp_path / "m.json")
    found = json.loads((tmp_path / "m.json").read_text())
    rules = found["metadata"]["table"]["features"]
    assert [rule["name"] for rule in rules] == found["feature_names"]
    X = np.column_stack([by_rule(raw[rule["column"]], rule, rules) for rule in rules])
    Z = (X - found["scaler"]["shift"]) * found["scaler"]["scale"]
    np.testing.assert_allclose(Z @ found["vectors"][0] + found["intercepts"][0], scores)
    assert export_model(model, tmp_path / "m.h").bytes > 0
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    export_model(model, tmp_path / "m.onnx", dtype="float64")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    feed = {}
    for name, kind, _ in model.steps[0][1].columns:
        values = raw[name]
        if kind == "category":
            values = np.array(["" if v is None else v for v in values], dtype=object)
        feed[name] = values[:, None]
    label, found_scores = session.run(None, feed)
    np.testing.assert_allclose(found_scores[:, 1], scores, atol=1e-9)
    assert label.tolist() == model.predict(raw).tolist()
    feed["city"][:] = "nowhere"  # unknown: with the rare ones
    other = raw | {"city": np.full(len(scores), "nowhere", dtype=object)}
    np.testing.assert_allclose(
        session.run(None, feed)[1][:, 1], model.decision_function(other), atol=1e-9
    )


def by_rule(values, rule, rules):
    """A feature as the JSON document says that it is made."""
    if rule["rule"] == "number":
        return np.where(np.isnan(values), rule["fill"], values)
    if rule["rule"] == "missing":
        return np.isnan(values).astype(float)
    if rule["rule"] == "value":
        return np.array([(v or "") == rule["value"] for v in values], dtype=float)
    known = {r["value"] for r in rules if r["column"] == rule["column"] and "value" in r}
    return np.array([(v or "") not in known for v in values], dtype=float)


@pytest.mark.parametrize("n_categories", [5, 60])  # dense and sparse features
def test_numbers_far_away_are_cut_off_where_that_is_clearly_better(tmp_path, tool, n_categories):
    import json

    from polymargin import load

    head, *rows = mistyped(1000, n_categories).splitlines()
    path = write(tmp_path, "\n".join([head, *rows[:500]]), "train.csv")
    test, model = write(tmp_path, "\n".join([head, *rows[500:]]), "test.csv"), tmp_path / "m.pm"
    code, _, err = tool("train", path, "--budget", 1e4, "-o", model)
    assert code == 0, err
    assert "scaling, by validation: values far from the median are cut off" in err
    code, out, err = tool("evaluate", model, test, "--json")
    assert code == 0, err
    assert json.loads(out)["error"] < 0.12
    code, _, err = tool("report", model, test, "-o", tmp_path / "r.html")
    assert code == 0, err
    code, _, err = tool("explain", model, test)
    assert code == 0, err

    fitted, data = load(model), read_data(test)
    raw = {column.name: column.values for column in data.columns}
    labels = fitted.predict(raw)
    assert tool("predict", model, test)[1].split() == labels.tolist()
    assert tool("export", model, "--to", "json", "-o", tmp_path / "m.json")[0] == 0
    found = json.loads((tmp_path / "m.json").read_text())
    scaler, rules = found["scaler"], found["metadata"]["table"]["features"]
    X = np.column_stack([by_rule(raw[rule["column"]], rule, rules) for rule in rules])
    Z = np.clip((X - scaler["shift"]) * scaler["scale"], scaler["low"], scaler["high"])
    features = fitted[:-1].transform(raw)
    features = features.toarray() if hasattr(features, "toarray") else features
    np.testing.assert_allclose(Z, features, atol=1e-9)
    number, _ = run_c(fitted, X, tmp_path)
    np.testing.assert_array_equal(fitted.classes_[number], labels)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    assert tool("export", model, "--to", "onnx", "-o", tmp_path / "m.onnx")[0] == 0
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    feed = {name: raw[name][:, None].astype(np.float32) for name in "abcdef"}
    feed["town"] = raw["town"][:, None]
    assert session.run(None, feed)[0].tolist() == labels.tolist()


def test_a_scaling_that_is_asked_for_is_kept(tmp_path, tool):
    path = write(tmp_path, mistyped(200))
    code, _, err = tool("train", path, "--scale", "standard", "--budget", 1)
    assert code == 0, err
    assert "scaling, by validation" not in err


def test_limits_of_some_columns_are_exported(tmp_path):
    """An encoder made in Python: limits of one group of numbers, none of the other."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    from polymargin import MulticlassSVC
    from polymargin.tables.table_columns import TableColumns

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + np.arange(3).repeat(30)[:, None]
    limited = make_pipeline(SimpleImputer(), MinMaxScaler(clip=True))
    encode = ColumnTransformer(
        [("a", limited, [0]), ("b", make_pipeline(SimpleImputer(), StandardScaler()), [1])]
    )
    columns = TableColumns([("a", "number", None), ("b", "number", None)])
    model = make_pipeline(columns, encode, MulticlassSVC(random_state=0))
    model.fit(X, np.arange(3).repeat(30))
    far = np.vstack([X, [[50.0, 0.0], [0.0, 50.0], [-50.0, -50.0]]])
    number, scores = run_c(model, far, tmp_path)
    np.testing.assert_array_equal(number, model.predict(far))
    np.testing.assert_allclose(scores, model.decision_function(far), rtol=1e-4, atol=1e-4)


def test_free_text_cannot_be_exported_everywhere(tmp_path, tool):
    from polymargin import export_model, load

    path, model = write(tmp_path, messy()), tmp_path / "m.pm"
    assert tool("train", path, "-m", "CS", "-c", 1, "-o", model)[0] == 0
    for suffix in (".h", ".onnx"):
        with pytest.raises(ValueError, match=r"'note' is free text.*--ignore 'note'"):
            export_model(load(model), tmp_path / f"m{suffix}")
    assert export_model(load(model), tmp_path / "m.json").bytes > 0
    code, _, err = tool("export", model, "--to", "c")
    assert code == 1
    assert "free text" in err


def test_train_chooses_the_machine(tmp_path, tool):
    import json

    path, model = write(tmp_path, messy()), tmp_path / "m.pm"
    options = ["--budget", 1, "--group", "late", "--json", "-o", model]
    code, out, err = tool("train", path, *options)
    assert code == 0, err
    assert "chosen" in err
    record = json.loads(out)
    assert record["tried"]["verdict"][0] == "chosen"
    assert record["training_error"] < 0.05
    assert record["stage"] == "final"
    assert not any(line.startswith("late ") for line in err.splitlines())  # a group, no feature
    code, out, err = tool("evaluate", model, path, "--json")
    assert code == 0, err
    code, _, err = tool("train", path, "-m", "CS", "--budget", 3)
    assert code == 2
    assert "--budget is for -m auto" in err
    code, _, err = tool("train", path, "-m", "auto", "-k", "rbf")
    assert code == 2
    assert "-k is for a named machine" in err


def test_several_files_and_queries_from_the_command_line(tmp_path, tool):
    lines = messy().splitlines()
    one = write(tmp_path, "\n".join(lines[:100]) + "\n", "one.csv")
    two = write(tmp_path, "\n".join([lines[0], *lines[100:]]) + "\n", "two.csv")
    code, _, err = tool("cv", one, two, "-m", "CS", "-c", 1, "-v", 2, "--ignore", "note")
    assert code == 0, err
    assert "2 files: 200 rows" in err
    query = "SELECT n, gap, l FROM data WHERE id < 150"
    code, _, err = tool("train", write(tmp_path, messy()), "-m", "CS", "-c", 1, "--query", query)
    assert code == 0, err
    assert "150 rows, 2 columns" in err
    code, _, err = tool("train", one, "--query", "DROP TABLE data")
    assert code == 1
    assert "--query must be one SELECT, got DROP" in err


def test_unknown_values_are_counted(tmp_path, tool):
    path, model = write(tmp_path, messy()), tmp_path / "m.pm"
    assert tool("train", path, "-m", "CS", "-c", 1, "--ignore", "note", "-o", model)[0] == 0
    other = messy().replace("town1", "Atlantis")
    code, out, err = tool("predict", model, write(tmp_path, other, "other.csv"))
    assert code == 0, err
    assert f"does not know in {other.count('Atlantis')} of 200 rows ('Atlantis')" in err
    assert "'Atlantis'" in err
    assert len(out.split()) == 200


def test_features_of_very_different_size_are_named(tmp_path, tool):
    rows = "".join(f"{1e6 * k},{1e-3 * (k % 3)},{'ab'[k % 2]}\n" for k in range(40))
    path = write(tmp_path, "a,b,l\n" + rows)
    assert "hardly count" in tool("train", path, "-m", "CS", "-c", 1e-9, "--scale", "none")[2]
    assert "hardly count" not in tool("train", path, "-m", "CS", "-c", 1)[2]


# -- columns that are no features --------------------------------------------------------------


@pytest.mark.parametrize("name", ["Id", "customer_id", "PassengerId"])
def test_identifiers_of_a_table_of_numbers_are_left_out(tmp_path, tool, name):
    rng = np.random.default_rng(0)
    numbers = np.arange(60) + 1 if name == "Id" else rng.permutation(10_000)[:60]
    rows = "".join(f"{i},{k % 3 + 0.1 * rng.normal()},c{k % 3}\n" for k, i in enumerate(numbers))
    path, model = write(tmp_path, f"{name},a,label\n{rows}"), tmp_path / "m.pm"
    code, _, err = tool("train", path, "-m", "CS", "-c", 1, "-o", model)
    assert code == 0, err
    assert f"column '{name}' left out" in err
    code, out, err = tool("predict", model, path)
    assert code == 0, err
    assert len(out.splitlines()) == 60
    code, _, err = tool("train", path, "-m", "CS", "-c", 1, "--numeric", name)
    assert "left out" not in err


def test_a_column_without_a_name_that_numbers_the_rows_is_told(tmp_path, tool):
    rows = "".join(f"{k},{k % 3}.5,c{k % 3}\n" for k in range(40))
    code, _, err = tool("train", write(tmp_path, rows), "-m", "CS", "-c", 1)
    assert code == 0, err
    assert "warning: column 0 numbers the rows: if it is no feature, give --ignore 0" in err


def test_a_report_on_two_columns_one_of_which_holds_words(tmp_path, tool):
    rows = "".join(f"{k % 3}.{k % 7},{'xyz'[k % 3]},c{k % 3}\n" for k in range(60))
    path, model = write(tmp_path, "a,b,label\n" + rows), tmp_path / "m.pm"
    assert tool("train", path, "-m", "CS", "-c", 1, "-o", model)[0] == 0
    code, _, err = tool("report", model, path, "-o", tmp_path / "r.html")
    assert code == 0, err


# -- warnings that a person needs --------------------------------------------------------------


def found(X, labels):
    """What reading a table gives, as far as warnings look at it."""
    from types import SimpleNamespace

    kinds = sorted(set(labels))
    return SimpleNamespace(X=X, labels=kinds, label_name="label")


def test_features_of_wildly_different_scale_are_told_where_they_are_not_scaled(capsys):
    from polymargin.cli.classes import warn_of_scales

    X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1e5, 2.0]
    warn_of_scales(found(X, ["a", "b"]), "none")
    assert "the small ones hardly count (--scale standard)" in capsys.readouterr().err
    warn_of_scales(found(X, ["a", "b"]), "auto")
    warn_of_scales(found(X[:, ::2], ["a", "b"]), "none")
    assert capsys.readouterr().err == ""


def test_classes_that_are_never_predicted_are_told(capsys):
    from polymargin.cli.outcome import warn_of_unpredicted

    classes = np.array(["a", "b", "c"])
    warn_of_unpredicted(np.array(["a", "c", "a"]), classes, "training rows")
    assert "never predicted for the training rows: b (" in capsys.readouterr().err
    warn_of_unpredicted(classes, classes, "training rows")
    assert capsys.readouterr().err == ""
