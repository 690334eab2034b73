"""Tables of any kind: odd files, columns that are no numbers, queries that may not leave them."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polymargin import DataFileError
from polymargin.datasets import ColumnSpec, Wanted, read_data
from polymargin.tables.column_plan import plan_columns
from polymargin.tables.table_columns import TableColumns


def write(tmp_path, text, name="data.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return str(path)


def kinds(data):
    return {column.name: column.kind for column in data.columns}


# -- files that were refused or misread --------------------------------------------------------


def test_twenty_thousand_named_columns(tmp_path):
    names = [f"feature_{k}" for k in range(20_000)]
    row = [repr(k / 7) for k in range(20_000)]
    text = ",".join([*names, "class"]) + "\n" + ",".join([*row, "x"]) + "\n"
    text += ",".join([*row, "y"]) + "\n"
    data = read_data(write(tmp_path, text))
    np.testing.assert_array_equal(data.X, np.tile(np.arange(20_000) / 7, (2, 1)))
    assert data.y.tolist() == ["x", "y"]
    assert data.feature_names[-1] == "feature_19999"


@pytest.mark.parametrize("quoted", [False, True])
def test_wide_tables_with_gaps_and_words(tmp_path, quoted):
    names = [f"f{k}" for k in range(1500)]
    rows = [[str(k + i) for k in range(1500)] for i in range(30)]
    rows[3][7] = "NA"
    for i, row in enumerate(rows):
        row[11] = '"red, dark"' if quoted and i % 2 else "red"
    text = "\n".join(",".join(row) + f",c{i % 2}" for i, row in enumerate([names, *rows])) + "\n"
    data = read_data(write(tmp_path, text.replace(",c0", ",class", 1)))
    assert np.isnan(data.columns[7].values).tolist() == [i == 3 for i in range(30)]
    assert data.columns[11].kind == "text"
    assert data.columns[11].values[1] == ("red, dark" if quoted else "red")
    assert data.columns[0].values.tolist() == list(range(30))


def test_wide_tables_name_the_line_of_a_short_row(tmp_path):
    row = ",".join("1" for _ in range(1200))
    text = ",".join(f"f{k}" for k in range(1200)) + f"\n{row}\n{row}\n{row[:-2]}\n"
    with pytest.raises(DataFileError, match="line 4: has 1199 fields where 1200"):
        read_data(write(tmp_path, text))


def test_quoted_newlines_anywhere(tmp_path):
    body = "".join(f'{k},"a\nb",x\n{k},c,y\n' for k in range(200_000))
    data = read_data(write(tmp_path, "n,t,l\n" + body), ignore=["t"])
    assert data.X.shape == (400_000, 1)
    path = write(tmp_path, 'n,t,l\n1,"a\n\nb",x\n2,c,\n')
    with pytest.raises(DataFileError, match="line 5: column 'l': the label is missing"):
        read_data(path)


def test_long_fields(tmp_path):
    text = "a,t,l\n1," + "w" * 200_000 + ",x\n2,v,y\n"
    assert len(read_data(write(tmp_path, text)).columns[1].values[0]) == 200_000


@pytest.mark.parametrize("text", ["1_0", "+-5", "٣", "１", "0x10", "1e", "1 2"])
def test_what_is_no_number(tmp_path, text):
    lines = "".join(f"{k},{k},x\n" for k in range(300))
    with pytest.raises(DataFileError, match=r"line 302: column 'b'.*is not a number"):
        read_data(write(tmp_path, f"a,b,l\n{lines}1,{text},y\n"))
    data = read_data(write(tmp_path, f"a,b,l\n1,{text},x\n2,{text},y\n"))
    assert kinds(data)["b"] == "text"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("²:1", "'²:1' is not 'number:value'"),
        ("1:1_0", "'1_0' is not a number"),
        ("1:1 qid:3", "'qid:3' is not"),
        ("qid:x 1:1", "'qid:x' is not"),
        ("1:٣", "is not a number"),
    ],
)
def test_odd_libsvm(tmp_path, row, message):
    with pytest.raises(DataFileError, match=f"line 2: .*{message}"):
        read_data(write(tmp_path, f"1 1:2\n2 {row}\n", "d.svm"))


def test_long_arff_headers_and_comments(tmp_path):
    values = ",".join(f"value{k}" for k in range(20_000))
    text = (
        f"@relation r\n@attribute skipped {{{values}}}\n@attribute w real\n@attribute class {{a,b}}"
        "\n@data\n% a comment, with, commas\nvalue7,1,a\n%\n value8 , 2 , b\n"
    )
    data = read_data(write(tmp_path, text, "d.arff"), ignore=["skipped"])
    np.testing.assert_array_equal(data.X, [[1], [2]])


def test_long_arff_attributes_take_no_time(tmp_path):
    text = "@relation r\n@attribute " + "a" * 60_000 + " " * 60_000 + "\n@data\n1\n"
    with pytest.raises(DataFileError, match=r"line 2: .*is not '@attribute name type'"):
        read_data(write(tmp_path, text, "d.arff"))


def test_a_bomb_is_refused_early(tmp_path):
    bomb = gzip.compress(b"a,l\n" + b"1" * (1 << 27))
    with pytest.raises(DataFileError, match=r"line \d: is longer than"):
        read_data(write(tmp_path, bomb, "d.csv.gz"))
    rows = gzip.compress(b"a,l\n" + b"1,x\n2,y\n" * 100_000)
    with pytest.raises(DataFileError, match="more than 100000 bytes once it is unpacked"):
        read_data(write(tmp_path, rows, "d.csv.gz"), max_bytes=100_000)


def test_damaged_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": np.arange(1e5), "l": ["x", "y"] * 50_000}), path)
    raw = bytearray(path.read_bytes())
    raw[1000:2000] = bytes(1000)
    path.write_bytes(bytes(raw))
    with pytest.raises(DataFileError) as caught:
        read_data(str(path))
    assert "\n" not in str(caught.value)


# -- encodings, decimal commas, several files --------------------------------------------------

TABLE = "größe;preis;klasse\n1,5;2;gut\n2,25;3;schlecht\n"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-8"])
def test_encodings_and_decimal_commas(tmp_path, encoding):
    path = write(tmp_path, TABLE, encoding=encoding)
    data = read_data(path, encoding="cp1252" if encoding == "cp1252" else None)
    np.testing.assert_array_equal(data.X, [[1.5, 2], [2.25, 3]])
    assert data.feature_names == ["größe", "preis"]
    with pytest.raises(DataFileError, match="encoding must be"):
        read_data(path, encoding="klingon")


def test_zstd(tmp_path):
    import duckdb

    path = str(tmp_path / "d.csv.zst")
    duckdb.connect().execute(
        f"COPY (SELECT 1.5 AS a, 'x' AS l UNION ALL SELECT 2.5, 'y') TO '{path}' "
        "(FORMAT csv, COMPRESSION zstd)"
    )
    data = read_data(path)
    np.testing.assert_array_equal(data.X, [[1.5], [2.5]])


def test_json_lines(tmp_path):
    text = (
        '{"a": 1.5, "ok": true, "t": null, "l": "x"}\n{"l": "007", "a": 2, "ok": false, "t": "q"}\n'
    )
    data = read_data(write(tmp_path, text, "d.jsonl"), label="l")
    assert kinds(data) == {"a": "number", "ok": "boolean", "t": "text"}
    assert data.y.tolist() == ["x", "007"]
    with pytest.raises(DataFileError, match="cannot be read"):
        read_data(write(tmp_path, '{"a": 1}\n{"a": \n', "e.jsonl"), label="a")


def test_several_files(tmp_path):
    write(tmp_path, "a,b,l\n1,2,x\n", "p1.csv")
    write(tmp_path, "a,b,l\n3,4,y\n5,6,\n", "p2.csv")
    with pytest.raises(DataFileError, match=r"p2\.csv, line 3: column 'l': the label is missing"):
        read_data(str(tmp_path / "p*.csv"))
    data = read_data([str(tmp_path / "p1.csv"), write(tmp_path, "a,b,l\n3,4,y\n", "p2.csv")])
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    with pytest.raises(DataFileError, match="has other columns than"):
        read_data([str(tmp_path / "p1.csv"), write(tmp_path, "b,a,l\n3,4,y\n", "p3.csv")])
    with pytest.raises(DataFileError, match="no file has such a name"):
        read_data(str(tmp_path / "q*.csv"))
    odd = write(tmp_path, "a,b,l\n3,4,y\n", "p[1].csv")
    assert read_data(odd).X.tolist() == [[3, 4]]


def test_labels_beyond_double_precision(tmp_path):
    big = 2**53
    path = write(tmp_path, f"a,l\n1,{big}\n2,{big + 1}\n")
    data = read_data(path)
    assert data.y.tolist() == [big, big + 1]
    assert data.labels_among(np.array([big, big + 1])).tolist() == [0, 1]
    assert read_data(path, query="SELECT a, l FROM data").y.tolist() == [big, big + 1]


def test_codes_with_leading_zeros_stay_text(tmp_path):
    path = write(tmp_path, "a,l\n1,007\n2,010\n")
    assert read_data(path).y.tolist() == ["007", "010"]
    assert read_data(path, query="SELECT * FROM data").y.tolist() == ["007", "010"]


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=30))
def test_numbers_are_read_exactly(tmp_path_factory, values):
    path = write(tmp_path_factory.mktemp("t"), "a,l\n" + "".join(f"{v!r},x\n" for v in values))
    found = read_data(path).X[:, 0]
    assert [math.copysign(1, v) for v in found] == [math.copysign(1, v) for v in values]
    np.testing.assert_array_equal(found, values)


# -- queries -----------------------------------------------------------------------------------


def test_query(tmp_path):
    people = write(tmp_path, "id,age,l\n1,30,x\n2,50,y\n3,40,x\n", "people.csv")
    pay = write(tmp_path, "id,pay\n1,10.5\n2,20.5\n3,30.5\n", "pay.csv")
    data = read_data(
        [people, pay], query="SELECT age, pay, l FROM people JOIN pay USING (id) WHERE age < 45"
    )
    assert sorted(data.X.tolist()) == [[30, 10.5], [40, 30.5]]
    assert read_data(people, query="SELECT age, l FROM data;").shape == (3, 1)


ATTACKS = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT a, l FROM data; SELECT 1",
    "COPY data TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/out.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "SELECT * FROM read_csv('https://example.org/x.csv')",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT getenv('HOME'), 1",
    "CREATE TABLE t AS SELECT 1",
    "INSERT INTO file0 VALUES (1, 'x')",
    "DROP VIEW data",
    "SELECT a, l FROM arrays",
    "SELECT * FROM secret_frame",
    "CALL enable_logging()",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM sqlite_scan('{secret}', 't')",
    "SELECT * FROM query('COPY data TO ''{folder}/out.csv''')",
    "SELECT * FROM query_table('{secret}')",
    "not sql at all",
    "",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_queries_may_not_leave_their_files(tmp_path, attack):
    secret_frame = {"a": np.ones(2)}  # noqa: F841 - a variable that a query must not see
    path = write(tmp_path, "a,l\n1,x\n2,y\n")
    secret = write(tmp_path, "a,l\n666,secret\n", "secret.csv")
    before = sorted(tmp_path.iterdir())
    query = attack.format(secret=secret, folder=tmp_path)
    with pytest.raises(DataFileError, match="--query") as caught:
        read_data(path, query=query)
    assert "\n" not in str(caught.value)
    assert "666" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


# -- columns -----------------------------------------------------------------------------------


def messy(n=200):
    rng = np.random.default_rng(0)
    rows = ["id,n,gap,when,sure,city,note,same,late,l"]
    for i in range(n):
        k = i % 2
        note = " ".join(rng.choice(["box", "ship", "late", "good", "poor"], 6))
        gap = "" if i % 10 == 0 else f"{k + rng.normal():.3f}"
        city = f"town{i % 3}" if i % 50 else f"rare{i}"
        rows.append(
            f"{i},{k + rng.normal():.3f},{gap},{1 + i % 28:02d}/0{1 + k}/2024,{k == 1},{city},"
            f"{note},x,{i % 7} {i % 5},{'ab'[k]}"
        )
    return "\n".join(rows) + "\n"


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


# -- the command line --------------------------------------------------------------------------


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


# -- tables as strangers have them -------------------------------------------------------------


def test_points_between_thousands_with_a_decimal_comma(tmp_path):
    text = "price;size;kind\n" + "1.234,50;0,5;a\n999,00;1,25;b\n12.345;2,0;a\n" * 10
    data = read_data(write(tmp_path, text))
    np.testing.assert_allclose(data.X[:3], [[1234.5, 0.5], [999.0, 1.25], [12345.0, 2.0]])


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


def test_measurements_are_no_identifiers():
    from polymargin.tables.column_plan import names_rows

    values = np.random.default_rng(0).normal(size=50)
    assert not names_rows("id", values)  # no whole numbers
    assert not names_rows("width", np.round(1000 * values))
    assert not names_rows("idea", np.random.default_rng(0).permutation(50) * 2.0)
    assert not names_rows("id", np.repeat(np.arange(25.0), 2))  # a speaker with two rows
    assert names_rows("row", np.arange(50.0))


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
