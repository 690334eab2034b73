"""Files of tables: odd ones, encodings, several of them, queries that may not leave them."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import kinds, write

from polymargin import DataFileError
from polymargin.datasets import read_data

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


def test_points_between_thousands_with_a_decimal_comma(tmp_path):
    text = "price;size;kind\n" + "1.234,50;0,5;a\n999,00;1,25;b\n12.345;2,0;a\n" * 10
    data = read_data(write(tmp_path, text))
    np.testing.assert_allclose(data.X[:3], [[1234.5, 0.5], [999.0, 1.25], [12345.0, 2.0]])


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
