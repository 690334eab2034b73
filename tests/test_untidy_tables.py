"""Tables as people have them: exports of spreadsheets, units, codes, names that occur twice."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import polymargin
from polymargin import DataFileError
from polymargin.cli import main
from polymargin.datasets import read_data


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return str(path)


def kinds(data):
    return {column.name: column.kind for column in data.columns}


@pytest.fixture
def tool():
    def call(*arguments, code=0):
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == code, result.stderr
        return result

    return call


def rows_of_text(cells, label="label", delimiter=","):
    """A table of one column of cells and one of numbers, with alternating labels."""
    lines = [f"a{delimiter}b{delimiter}{label}"]
    lines += [f"{cell}{delimiter}{k}{delimiter}{'xy'[k % 2]}" for k, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["12%", "7.5 %", "-3%"], [12, 7.5, -3]),
        (["$5", "$0.25", "-$2"], [5, 0.25, -2]),
        (['"$1,200.50"', '"$12"', '"$3,000,000"'], [1200.5, 12, 3e6]),
        (["EUR 5", "EUR 7", "EUR 9"], [5, 7, 9]),
        (["180 cm", "165 cm", "12.5 cm"], [180, 165, 12.5]),
        (["1 200", "15 000", "7"], [1200, 15000, 7]),
        (["1\u00a0200", "15\u202f000", "7"], [1200, 15000, 7]),
        (["1'200.5", "15'000", "7"], [1200.5, 15000, 7]),
        (["(12.50)", "3", "4"], [-12.5, 3, 4]),
        (["#DIV/0!", "3", "--"], [np.nan, 3, np.nan]),
    ],
)
def test_numbers_as_spreadsheets_write_them(tmp_path, cells, values):
    data = read_data(write(tmp_path, rows_of_text(cells)))
    found = data.X[:, 0] if data.columns is None else data.columns[0].values
    np.testing.assert_array_equal(found, values)


def test_amounts_with_decimal_commas(tmp_path):
    cells = ["1.234,50 €", "7,25 €", "12 €"]
    data = read_data(write(tmp_path, rows_of_text(cells, delimiter=";")))
    np.testing.assert_array_equal(data.X[:, 0], [1234.5, 7.25, 12])


@pytest.mark.parametrize("cells", [["4x4", "2x4"], ["1e", "2e"], ["12 %", "3"], ["$5", "€5"]])
def test_what_has_no_common_unit_is_words(tmp_path, cells):
    assert kinds(read_data(write(tmp_path, rows_of_text(cells))))["a"] == "text"


def test_postcodes_are_words_and_padded_numbers_are_numbers(tmp_path):
    codes = read_data(write(tmp_path, rows_of_text(["01067", "80331", "00007"])))
    assert codes.columns[0].values.tolist() == ["01067", "80331", "00007"]
    padded = read_data(write(tmp_path, rows_of_text(["012", "255", "000"])))
    np.testing.assert_array_equal(padded.X[:, 0], [12, 255, 0])


@pytest.mark.parametrize(
    ("cells", "form", "days"),
    [
        (["2020-01-02", "03.01.2020"], "iso or %d.%m.%Y", [18263, 18264]),
        (["06:00", "18:30"], "%H:%M", [0.25, 18.5 / 24]),
        (["06:00 PM", "12:00 AM"], "%I:%M %p", [0.75, 0.0]),
    ],
)
def test_mixed_dates_and_times_of_day(tmp_path, cells, form, days):
    column = read_data(write(tmp_path, rows_of_text(cells))).columns[0]
    assert (column.kind, column.form) == ("date", form)
    np.testing.assert_allclose(column.values, days, atol=1e-9)


def test_days_and_months_are_not_swapped_within_a_column(tmp_path):
    cells = ["31/01/2020", "01/31/2020"]
    assert kinds(read_data(write(tmp_path, rows_of_text(cells))))["a"] == "text"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("sep=;\r\na;l\r\n1;x\r\n2;y\r\n", "a line above the table left out"),
        ("# a device\n# of 2024\na,l\n1,x\n2,y\n", "2 lines above the table left out"),
        ("Report of 2024\n\na,l\n1,x\n2,y\n", "a line above the table left out"),
        ("Report;\n;\na;l\n1;x\n2;y\n", "2 lines above the table left out"),
        ("a,l,\n1,x,\n2,y,\n", "1 column without name and values at the end left out"),
    ],
)
def test_what_exports_put_around_a_table(tmp_path, text, note):
    data = read_data(write(tmp_path, text))
    np.testing.assert_array_equal(data.X, [[1], [2]])
    assert data.feature_names == ["a"]
    assert data.y.tolist() == ["x", "y"]
    assert note in data.notes
    mark = ";" if ";" in text else ","
    broken = write(
        tmp_path, text + mark.join("123456") + text[text.index("2,y".replace(",", mark)) + 3 :]
    )
    with pytest.raises(DataFileError, match=f"line {text.count(chr(10)) + 1}: has"):
        read_data(broken)


def test_a_header_may_begin_with_a_hash(tmp_path):
    assert read_data(write(tmp_path, "#a,l\n1,x\n2,y\n")).feature_names == ["#a"]


@pytest.mark.parametrize("ending", ["csv", "arff", "npz", "query"])
def test_names_that_occur_twice_are_told_apart_by_every_reader(tmp_path, ending):
    if ending == "npz":
        path = tmp_path / "d.npz"
        np.savez(path, X=np.eye(2), y=[0, 1], feature_names=["x", "x"])
    elif ending == "arff":
        head = "@relation r\n@attribute x numeric\n@attribute x numeric\n@attribute l {a,b}\n"
        path = write(tmp_path, head + "@data\n1,0,a\n0,1,b\n", "d.arff")
    else:
        path = write(tmp_path, "x,x,l\n1,0,a\n0,1,b\n")
    query = 'SELECT x, "x.2" AS x, l FROM data' if ending == "query" else None
    data = read_data(str(path), query=query)
    assert data.feature_names == ["x", "x.2"]
    np.testing.assert_array_equal(data.X, np.eye(2))
    assert any("'x' occurs again: the later one is called 'x.2'" in note for note in data.notes)


def test_two_columns_named_label_from_training_to_evaluation(tmp_path, tool):
    body = "".join(f"{k % 3}.{k},{k},{'xyz'[k % 3]}\n" for k in range(30))
    path = write(tmp_path, "label,b,label\n" + body)
    with pytest.raises(DataFileError, match="has 2 columns 'label'; give a number: --label 0 or"):
        read_data(path, label="label")
    model = str(tmp_path / "m.polymargin")
    said = tool("train", path, "-o", model, "-m", "CS", "-c", "1").stderr
    assert "label: the last column, 'label.2'" in said
    assert tool("evaluate", model, path).exit_code == 0
    assert tool("predict", model, path).stdout.split() == [
        *tool("predict", model, write(tmp_path, "label,b\n" + body.replace(",x\n", "\n").replace(
            ",y\n", "\n").replace(",z\n", "\n"), "new.csv")).stdout.split()
    ]  # fmt: skip


def test_words_of_a_model_are_read_as_words(tmp_path, tool):
    """A file whose codes all look like numbers holds the same categories as that of training."""
    body = [f"{'0' * (k % 2)}{k % 2 + 1}.0,{k % 7},{'xy'[k % 2]}" for k in range(40)]
    path = write(tmp_path, "code,b,label\n" + "\n".join(body) + "\n")
    model = str(tmp_path / "m.polymargin")
    tool("train", path, "-o", model, "--categorical", "code", "-m", "CS", "-c", "1")
    said = tool("predict", model, write(tmp_path, "code,b\n1.0,3\n02.0,3\n", "new.csv"))
    assert "does not know" not in said.stderr
    assert said.stdout.split() == ["x", "y"]


def test_units_from_training_to_prediction(tmp_path, tool):
    body = [f"{10 * (k % 2) + k % 5} cm,{'uv'[k % 3 > 0]},{'xy'[k % 2]}" for k in range(40)]
    path = write(tmp_path, "size,word,label\n" + "\n".join(body) + "\n")
    model = str(tmp_path / "m.polymargin")
    said = tool("train", path, "-o", model, "-m", "CS", "-c", "1").stderr
    assert "in cm" in said
    new = write(tmp_path, "size,word\n1 cm,u\n13,v\n", "new.csv")
    assert tool("predict", model, new).stdout.split() == ["x", "y"]
    other = tool("predict", model, write(tmp_path, "size,word\n1 kg,u\n", "other.csv"), code=1)
    assert "is in 'kg', the model was trained on 'cm'" in other.stderr
    pipeline = polymargin.load(model)
    assert pipeline.predict({"size": ["1 cm", "13 cm"], "word": ["u", "v"]}).tolist() == ["x", "y"]


def test_mixed_values_of_json_lines(tmp_path):
    lines = '{"a": 1, "b": "2.5", "l": "x"}\n{"a": "3", "b": 4, "l": 1}\n'
    data = read_data(write(tmp_path, lines, "d.jsonl"))
    np.testing.assert_array_equal(data.X, [[1, 2.5], [3, 4]])
    assert data.y.tolist() == ["x", "1"]
    nested = '{"a": 1, "l": "x"}\n{"a": {"b": 2}, "l": "y"}\n'
    with pytest.raises(DataFileError, match="column 'a' holds JSON"):
        read_data(write(tmp_path, nested, "n.jsonl"))


def test_a_missing_label_suggests_the_column_that_looks_like_one(tmp_path):
    lines = '{"class": "x", "a": 1}\n{"class": "y", "a": 2, "opt": 3}\n'
    with pytest.raises(
        DataFileError, match=r"name another label column with --label \('class'\?\)"
    ):
        read_data(write(tmp_path, lines, "d.jsonl"))


def test_labels_that_are_alike_and_features_that_never_vary(tmp_path, tool):
    body = "".join(f"{k},{('Yes', 'yes', 'no')[k % 3]}\n" for k in range(30, 3, -1))
    said = tool("train", write(tmp_path, "a,l\n" + body), "-m", "CS", "-c", "1").stderr
    assert "has 'Yes' and 'yes', which are different classes" in said
    same = write(tmp_path, "a,b,l\n" + "1,2,x\n1,2,y\n" * 10)
    said = tool("train", same, "-m", "CS", "-c", "1", code=1).stderr
    assert "every feature has the same value in all 20 rows" in said
    plan = tool("train", write(tmp_path, "a,b,l\n" + "1,u,x\n1,v,y\n" * 10), "-m", "CS", "-c", "1")
    assert "the same value in all rows, 1" in plan.stderr


def test_thousands_of_equal_names(tmp_path):
    """Names are told apart in linear time, and people read of a few of them."""
    path = tmp_path / "wide.csv"
    n = 3000
    rows = [",".join(str(float(i * j % 7)) for j in range(n)) + f",{'ab'[i % 2]}" for i in range(4)]
    path.write_text("\n".join([",".join(["x"] * n) + ",label", *rows]))
    data = read_data(str(path))
    assert len(set(data.feature_names)) == n
    assert sum("renamed" in note or "occurs again" in note for note in data.notes) == 6


def test_dates_and_times_are_explained_as_such(tmp_path, tool):
    body = [f"{1 + k % 28:02d}.03.2024,{k % 24:02d}:30,{'xy'[k % 28 > 13]}" for k in range(60)]
    path = write(tmp_path, "day,hour,label\n" + "\n".join(body) + "\n")
    model = str(tmp_path / "m.polymargin")
    tool("train", path, "-o", model, "-m", "CS", "-c", "1")
    said = tool("explain", model, path).stdout
    assert "day = 2024-03-02" in said
    assert "hour = 01:30" in said
    asked = tool("train", path, "--query", "SELECT hour, label FROM data", "-m", "CS", "-c", "1")
    assert "share of the day, read as hour:minute" in asked.stderr


def test_warnings_speak_of_options(tmp_path, tool):
    rng = np.random.default_rng(0)
    body = [f"{v:.4f},{'rare' if k % 4 == 0 else 'often'}" for k, v in enumerate(rng.random(120))]
    path = write(tmp_path, "a,label\n" + "\n".join(body) + "\n")
    said = tool("train", path, "--budget", "0.5", "--seed", "0").stderr
    assert "in validation the chosen machine never predicted 'rare'; use --objective" in said
    assert "objective='balanced_accuracy'" not in said


@pytest.mark.parametrize(("value", "warns"), [("3", True), ("0.5", False), ("1", False)])
def test_counts_of_words_are_told(tmp_path, tool, value, warns):
    lines = [f"{k % 2} {1 + k % 2}:{value} {5 + 3 * k}:1" for k in range(30)]
    path = write(tmp_path, "\n".join(lines) + "\n", "d.svm")
    said = tool("train", path, "-m", "CS", "-c", "1").stderr
    assert ("look like counts of words" in said) == warns


def test_names_over_words_are_found_although_a_class_is_called_alike(tmp_path):
    body = "u,p,y\nv,p,n\nu,q,y\nv,q,n\n" * 3
    data = read_data(write(tmp_path, "c1,c2,y\n" + body))
    assert (data.feature_names, len(data.codes)) == (["c1", "c2"], 12)
    assert not any("taken for a row" in note for note in data.notes)
    data = read_data(write(tmp_path, body))
    assert (data.feature_names, len(data.codes)) == (None, 12)
    assert any("taken for a row, not for names (names: --header)" in n for n in data.notes)


def test_a_header_in_another_encoding_is_told_with_its_line(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("Gr\u00f6\u00dfe;l\n1;x\n2;y\n".encode("latin-1"))
    with pytest.raises(DataFileError, match="line 1: is not UTF-8 text; give its --encoding"):
        read_data(str(path))
    assert read_data(str(path), encoding="latin-1").feature_names == ["Gr\u00f6\u00dfe"]


def test_missing_labels_are_counted_and_the_query_that_drops_them_works(tmp_path, tool):
    body = "".join(f"{k},{'' if k % 5 == 0 else 'xy'[k % 2]}\n" for k in range(40))
    path = write(tmp_path, 'a,"the label"\n' + body)
    said = tool("train", path, "-m", "CS", "-c", "1", code=1).stderr
    query = 'SELECT * FROM data WHERE "the label" IS NOT NULL'
    assert f"drop these 8 rows (--query '{query}')" in said
    said = tool("train", path, "-m", "CS", "-c", "1", "--query", query).stderr
    assert "32 rows" in said


def test_numbers_that_stand_for_no_value_and_classes_of_one_row_are_told(tmp_path, tool):
    rng = np.random.default_rng(0)
    lines = [f"{v:.3f},{w:.3f},{'xy'[k % 2]}" for k, (v, w) in enumerate(rng.random((40, 2)))]
    lines[3] = lines[7] = "-999,0.5,x"
    lines.append("0.1,,Total")
    path = write(tmp_path, "a,b,l\n" + "\n".join(lines) + "\n")
    said = tool("train", path, "-m", "CS", "-c", "1").stderr
    assert "column 'a' has -999 in 2 rows, far from all other values" in said
    assert "1 class with a single row ('Total')" in said
    said = tool("train", path, "-m", "CS", "-c", "1", "--missing", "-999").stderr
    assert "far from" not in said
    # numbers up to 999 are numbers
    lines = [f"{999 - 9 * k},{'xy'[k % 2]}" for k in range(40)] + ["999,x"] * 3
    said = tool("train", write(tmp_path, "a,l\n" + "\n".join(lines)), "-m", "CS", "-c", "1").stderr
    assert "far from" not in said


def test_numbers_too_large_to_be_scaled_are_refused_by_column(tmp_path, tool):
    body = "".join(f"{k},{'' if k == 3 else k}e200,{'xy'[k % 2]}\n" for k in range(30))
    path = write(tmp_path, "a,huge,l\n" + body.replace(",e200", ","))
    said = tool("train", path, code=1).stderr
    assert "column 'huge' has values up to 2.9e+201, whose squares overflow" in said


def test_the_only_category_is_suggested_instead_of_an_identifier(tmp_path, tool):
    body = "".join(f"{k % 7},{'xy'[k % 2]},{3 * k}\n" for k in range(30))
    said = tool("train", write(tmp_path, "a,grade,customer\n" + body), code=1).stderr
    assert "name another column with --label ('grade'?)" in said


def test_too_few_rows_to_validate_are_told_in_a_line(tmp_path, tool):
    said = tool("train", write(tmp_path, "a,l\n1,u\n2,v\n")).stderr
    assert "too few rows to validate anything" in said
    assert "splits" not in said


def test_a_table_with_other_names_is_told_what_it_has(tmp_path, tool):
    model = str(tmp_path / "m.polymargin")
    body = "".join(f"{2 * k},{k % 3},{'xy'[k % 2]}\n" for k in range(20))
    tool("train", write(tmp_path, "a,b,l\n" + body), "-o", model, "-m", "CS", "-c", "1")
    said = tool("predict", model, write(tmp_path, "A,B\n1,2\n", "n.csv"), code=1).stderr
    assert "'a', 'b' (names differ in capitals or blanks only: write them as in training)" in said
    said = tool("predict", model, write(tmp_path, "c,b\n1,2\n", "n.csv"), code=1).stderr
    assert "lacks 1 of the 2 feature columns of the model: 'a'; it has c, b" in said


def test_new_rows_may_write_dates_otherwise(tmp_path, tool):
    """Their days count; texts that fit the format of training are read by it."""
    model = str(tmp_path / "m.polymargin")
    days = [f"{1 + k % 28:02d}.{1 + k % 12:02d}.2024,{'xy'[k % 12 > 5]}" for k in range(60)]
    tool("train", write(tmp_path, "d,l\n" + "\n".join(days)), "-o", model, "-m", "CS", "-c", "1")
    new = write(tmp_path, "d\n2024-02-25\n2024-11-25\n", "new.csv")
    found = tool("predict", model, new)
    assert found.stdout.split() == ["x", "y"]
    assert "dates are read as year-month-day, in training they were written as day.month.year" in (
        found.stderr
    )
    wrong = write(tmp_path, "d\n25.02.2024\nlater\n", "new.csv")
    said = tool("predict", model, wrong, code=1).stderr
    assert "line 3: column 'd': 'later' is not a date like day.month.year" in said


def test_the_field_that_is_no_number_is_named_not_the_one_with_a_unit(tmp_path, tool):
    model = str(tmp_path / "m.polymargin")
    body = "".join(f"${k}.50,{'xy'[k % 2]}\n" for k in range(20))
    tool("train", write(tmp_path, "a,l\n" + body), "-o", model, "-m", "CS", "-c", "1")
    said = tool("predict", model, write(tmp_path, "a\n$5\nabc\n", "n.csv"), code=1).stderr
    assert "line 3: column 'a': 'abc' is not a number" in said


def test_a_report_speaks_of_columns_and_draws_no_map_over_categories(tmp_path, tool):
    rng = np.random.default_rng(0)
    codes = [f"{100 * rng.integers(1, 9) + k % 2:05d}" for k in range(60)]
    body = "".join(f"{c},{rng.normal():.3f},{'xy'[k % 2]}\n" for k, c in enumerate(codes))
    path = write(tmp_path, "zip,a,l\n" + body)
    model, page = str(tmp_path / "m.polymargin"), tmp_path / "r.html"
    tool("train", path, "-o", model, "-m", "CS", "-c", "1", "-k", "rbf")
    tool("report", model, path, "-o", page)
    text = page.read_text()
    assert "columns of a table: zip (category), a (number)" in text
    assert "numbers filled and scaled, a feature per category" in text
    assert "60 examples, 2 columns" in text
    assert "Decision regions" not in text  # a category has no place on an axis
    assert "TableColumns(" not in text.partition("All parameters")[0]


def test_words_of_a_text_are_no_files_of_the_model(tmp_path, tool):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{j}" for j in rng.integers(400, size=9)) for _ in range(60)]
    body = "".join(f"{text},{'xy'[k % 2]}\n" for k, text in enumerate(texts))
    model = tmp_path / "m.polymargin"
    tool("train", write(tmp_path, "words,l\n" + body), "-o", model, "-m", "CS", "-c", "1")
    vocabulary = polymargin.load(model)[1].transformers_[0][1].vocabulary_
    assert len(vocabulary) > 200
    assert {type(k) for k in vocabulary.values()} == {int}


def test_a_parquet_column_without_values_is_left_out(tmp_path, tool):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "d.parquet"
    table = {"a": [float(i * i % 7) for i in range(40)], "none": pa.nulls(40), "y": ["u", "v"] * 20}
    pq.write_table(pa.table(table), path)
    model = str(tmp_path / "m.pm")
    said = tool("train", "-m", "CS", "-c", "1", "-o", model, path, "--label", "y").stderr
    assert "no value in any row" in said
    assert len(tool("predict", "-q", model, path).stdout.split()) == 40


@pytest.mark.parametrize(
    "options", [["-m", "CS", "-c", "1"], ["--budget", "100"], ["--memory", "100MB"]]
)
@pytest.mark.parametrize("word", [False, True])
def test_a_column_of_one_large_number_changes_nothing(tmp_path, tool, options, word):
    rng = np.random.default_rng(0)
    lines = ["a,b,tenant,kind,label"]
    for k in range(120):
        a, b = rng.normal(size=2) + 3 * np.eye(3)[k % 3][:2]
        lines.append(
            f"{a:.3f},{b:.3f},123456789012345678,{'uv'[k % 2] if word else 0},{'xyz'[k % 3]}"
        )
    path = write(tmp_path, "\n".join(lines) + "\n")
    error = {}
    for ignored in ([], ["--ignore", "tenant"]):
        model = str(tmp_path / f"model{len(ignored)}")
        tool("train", path, "-o", model, *options, *ignored, "-q")
        error[len(ignored)] = json.loads(tool("evaluate", model, path, "--json", "-q").stdout)
    assert error[0]["error"] == error[2]["error"]


@pytest.mark.parametrize("copies", ["xyz", "123"])
def test_a_column_that_copies_the_label_is_told(tmp_path, tool, copies):
    rng = np.random.default_rng(0)
    lines = ["a,kind,label"]
    lines += [f"{rng.normal():.3f},{copies[k % 3]},{'uvw'[k % 3]}" for k in range(40)]
    path = write(tmp_path, "\n".join(lines) + "\n")
    said = tool("train", path, "-m", "CS", "-c", "1", "-o", str(tmp_path / "model")).stderr
    assert "warning: column 'kind' has one value for each class" in said
    lines[7] = lines[7].replace(f",{copies[0]},", f",{copies[1]},")
    path = write(tmp_path, "\n".join(lines) + "\n")
    said = tool("train", path, "-m", "CS", "-c", "1", "-o", str(tmp_path / "model")).stderr
    assert "one value for each class" not in said


def test_labels_that_differ_in_the_coding_of_accents_are_told(tmp_path, tool):
    labels = ["caf\u00e9", "cafe\u0301", "bar"]
    lines = ["a,b,label", *(f"{k % 7},{k % 5},{labels[k % 3]}" for k in range(30))]
    path = write(tmp_path, "\n".join(lines) + "\n")
    said = tool("train", path, "-m", "CS", "-c", "1", "-o", str(tmp_path / "model")).stderr
    assert "which are different classes" in said
