"""Readers: every format gives the same data, and every broken file one clear line."""

import bz2
import gzip
import io
import lzma
import math
import random
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from polymargin import DataFileError
from polymargin.compiled.parsing import read_number
from polymargin.datasets import ColumnSpec, Wanted, read_data

TABLE = """sepal,petal,species
5.1,1.4,setosa
7.0,4.7,versicolor
-6.3e0,6,virginica
4.9,1.4,setosa
"""
X = np.array([[5.1, 1.4], [7.0, 4.7], [-6.3, 6.0], [4.9, 1.4]])
Y = ["setosa", "versicolor", "virginica", "setosa"]


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


def check(data, names=True):
    np.testing.assert_array_equal(np.asarray(data.X), X)
    assert data.y.tolist() == Y
    if names:
        assert data.feature_names == ["sepal", "petal"]
        assert data.label_name == "species"


# -- numbers -----------------------------------------------------------------------------------


def assert_reads(text):
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    value = np.zeros(1)
    if read_number(raw, 0, len(raw), value, value.view(np.uint64), 0):
        assert struct.pack("<d", value[0]) == struct.pack("<d", float(text)), text
        return True
    return False


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=300)
def test_shortest_decimal_of_any_double(value):
    assert_reads(repr(value))


@given(st.integers(0, 10**19 - 1), st.integers(-345, 310))
@settings(max_examples=300)
def test_any_decimal(digits, power):
    assert_reads(f"{digits}e{power}")


def test_ties_and_edges():
    draw = random.Random(0)
    for _ in range(2000):
        assert_reads(str(2**53 + 2 * draw.getrandbits(52) + 1))  # halfway between two doubles
        assert_reads(repr(math.ldexp(draw.random(), draw.randrange(-1074, 1023))))
    for text in ("0", "-0", "+1", "1.", ".5", "1e22", "1e23", "9007199254740993", "0.1e1", "1e308"):
        assert assert_reads(text), text


@pytest.mark.parametrize(
    "text", ["", ".", "-", "e5", "1e", "abc", "nan", "inf", "0x10", "1_0", "1 2"]
)
def test_what_is_no_plain_number(text):
    raw = np.frombuffer((text + ",").encode(), dtype=np.uint8)
    value = np.zeros(1)
    assert not read_number(raw, 0, len(text), value, value.view(np.uint64), 0)


# -- tables ------------------------------------------------------------------------------------


def test_csv(tmp_path):
    data = read_data(write(tmp_path, TABLE))
    check(data)
    assert "species" in data.notes[0]
    assert data.X.flags.c_contiguous


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " ", "  "])
def test_delimiters_are_found(tmp_path, delimiter):
    check(read_data(write(tmp_path, TABLE.replace(",", delimiter))))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.rstrip("\n"),
        lambda t: "\ufeff" + t,
        lambda t: t.replace("\n", "\n\n"),
        lambda t: t.replace("setosa", '"setosa"').replace("5.1", '"5.1"'),
        lambda t: t.replace(",", " , "),
    ],
    ids=["crlf", "no last newline", "byte order mark", "blank lines", "quotes", "blanks"],
)
def test_variants_of_csv(tmp_path, change):
    check(read_data(write(tmp_path, change(TABLE))))


def test_without_header(tmp_path):
    body = TABLE.partition("\n")[2]
    check(read_data(write(tmp_path, body)), names=False)
    data = read_data(write(tmp_path, "1,2,0\n3,4,1\n5,6,0\n"))
    assert data.y.tolist() == [0, 1, 0]
    assert data.feature_names is None
    assert read_data(write(tmp_path, "0,1,label\n1,2,3\n3,4,5\n")).feature_names == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0,1,2,label\n5,6,7,x\n8,9,1,y\n", 2),  # a data frame without names
        ("1,2,label\n5,6,x\n8,9,y\n", 2),
        ("0,1,2,3\n5,6,7,0\n8,9,1,1\n", 2),
        ("0,1,x\n5,6,y\n8,9,x\n", 3),
        ("0,3,x\n5,6,y\n8,9,z\n", 3),
        ("5,1,0\n5,6,1\n8,9,0\n", 3),
        ("a,b,c\nd,e,f\n", 1),
    ],
)
def test_header_is_found(tmp_path, text, rows):
    assert read_data(write(tmp_path, text)).shape[0] == rows


def test_a_column_without_name(tmp_path):
    path = write(tmp_path, ",a,l\n0,5,x\n1,6,y\n")
    data = read_data(path)
    assert data.feature_names == ["column 0", "a"]
    assert any("--ignore 0" in note for note in data.notes)
    assert read_data(path, ignore=["0"]).feature_names == ["a"]


def test_header_by_order(tmp_path):
    path = write(tmp_path, "1,2,3\n4,5,6\n")
    assert read_data(path, header=True).X.shape == (1, 2)
    assert read_data(path, header=False).X.shape == (2, 2)


@pytest.mark.parametrize("label", ["a", 0, "0", -3])
def test_label_column(tmp_path, label):
    data = read_data(write(tmp_path, "a,b,c\nx,1,2\ny,3,4\n"), label=label)
    assert data.y.tolist() == ["x", "y"]
    assert data.feature_names == ["b", "c"]
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])


def test_ignored_columns(tmp_path):
    data = read_data(write(tmp_path, "id,a,b,c\nu7,1,2,x\nu8,3,4,y\n"), ignore=["id", 2])
    np.testing.assert_array_equal(data.X, [[1], [3]])


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["+1", "-1", "+1"], [1, -1, 1]),
        (["1.0", "2.0", "1"], [1, 2, 1]),
        (["01", "02", "01"], ["01", "02", "01"]),
        (["1", "b", "1"], ["1", "b", "1"]),
        (["0.5", "1.5", "0.5"], ["0.5", "1.5", "0.5"]),
    ],
)
def test_labels(tmp_path, texts, values):
    body = "".join(f"{k},{text}\n" for k, text in enumerate(texts))
    assert read_data(write(tmp_path, "f,l\n" + body)).y.tolist() == values


def test_many_labels_and_rows(tmp_path):
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(30000, 3)), rng.integers(500, size=30000)
    text = "".join(
        ",".join(map(repr, row)) + f",class {label}\n"
        for row, label in zip(values.tolist(), labels, strict=True)
    )
    data = read_data(write(tmp_path, text))
    np.testing.assert_array_equal(data.X, values)
    assert data.y.tolist() == [f"class {label}" for label in labels]
    single = read_data(write(tmp_path, text), dtype="float32")
    np.testing.assert_array_equal(single.X, values.astype(np.float32))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed(tmp_path, pack):
    check(read_data(write(tmp_path, pack(TABLE.encode()), "data.csv.gz")))


def test_broken_packing(tmp_path):
    path = write(tmp_path, gzip.compress(TABLE.encode() * 100)[:-30], "data.csv.gz")
    with pytest.raises(DataFileError, match="unpacked"):
        read_data(path)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TABLE.encode())))
    check(read_data("-"))


def test_progress(tmp_path):
    seen = []
    path = write(tmp_path, "a,b,l\n" + "1.25,2.5,x\n" * 900_000)
    read_data(path, progress=lambda done, size: seen.append((done, size)))
    assert seen[-1][0] == seen[-1][1]


# -- other formats -----------------------------------------------------------------------------


def test_libsvm(tmp_path):
    text = "+1 1:0.5 3:2 # comment\n-1 2:1e-3\n\n+1 qid:3 1:1\n2\n"
    data = read_data(write(tmp_path, text, "data.svm"))
    np.testing.assert_array_equal(
        sparse.csr_matrix(data.X).toarray(), [[0.5, 0, 2], [0, 1e-3, 0], [1, 0, 0], [0, 0, 0]]
    )
    assert data.y.tolist() == [1, -1, 1, 2]
    assert read_data(write(tmp_path, text, "data.txt")).kind == "libsvm"
    data = read_data(write(tmp_path, "0 0:1 9:2\n1 1:3\n", "d.svm"))
    assert data.zero_based
    assert data.X.shape == (2, 10)
    assert sparse.issparse(data.X)


def test_libsvm_like_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    rng = np.random.default_rng(0)
    rows = sparse.random(2000, 300, 0.05, format="csr", random_state=0)
    y = rng.integers(5, size=2000)
    path = str(tmp_path / "data.libsvm")
    dump_svmlight_file(rows, y, path, zero_based=False)
    data, (expected, labels) = read_data(path), load_svmlight_file(path, zero_based=False)
    assert (expected != data.X).nnz == 0
    np.testing.assert_array_equal(data.y, labels)


def test_libsvm_for_a_model(tmp_path):
    path = write(tmp_path, "1 1:1 5:2\n2 3:1\n", "d.svm")
    assert read_data(path, wanted=Wanted(10)).X.shape == (2, 10)
    data = read_data(path, wanted=Wanted(4))
    assert data.X.shape == (2, 4)
    assert "ignored" in data.notes[0]


ARFF = """% about flowers
@RELATION flowers
@attribute sepal NUMERIC
@attribute 'petal' real
@attribute species {setosa, versicolor, 'virginica'}
@data
5.1,1.4,setosa
% a comment
7.0,4.7,versicolor
-6.3,6,'virginica'
{0 4.9, 1 1.4, 2 setosa}
"""


def test_arff(tmp_path):
    check(read_data(write(tmp_path, ARFF, "data.arff")))
    check(read_data(write(tmp_path, ARFF, "data")))


def test_arff_nominal_features(tmp_path):
    text = (
        "@relation r\n@attribute colour {red,blue}\n@attribute id string\n@attribute w real\n"
        "@attribute class {a,b}\n@data\nred,u1,1,a\nblue,u2,2,b\n"
    )
    path = write(tmp_path, text, "d.arff")
    data = read_data(path, ignore=["id"])
    assert data.feature_names == ["colour", "w"]
    assert [column.kind for column in data.columns] == ["text", "number"]
    assert data.columns[0].values.tolist() == ["red", "blue"]
    wanted = Wanted(2, ["w", "colour"], "class")
    wanted.columns = [ColumnSpec("w", "number"), ColumnSpec("colour", "text")]
    data = read_data(path, ignore=["id"], wanted=wanted, need_label=False)
    assert data.columns[0].values.tolist() == [1, 2]
    gap = read_data(write(tmp_path, text.replace("red,u1", "?,u1"), "e.arff"), ignore=["id"])
    assert gap.columns[0].values.tolist() == [None, "blue"]
    odd = write(
        tmp_path, text.replace("@attribute id string", "@attribute id relational"), "f.arff"
    )
    with pytest.raises(DataFileError, match="'id' is of type relational"):
        read_data(odd)


def test_npz(tmp_path):
    path = str(tmp_path / "data.npz")
    np.savez(path, X=X, y=Y, train_idx=[0, 1], test_idx=[2, 3])
    check(read_data(path), names=False)
    np.testing.assert_array_equal(read_data(path, part="test").X, X[2:])
    with pytest.raises(DataFileError, match="val_idx"):
        read_data(path, part="validation")
    rows = sparse.csr_matrix(X)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    np.savez(path, y=Y, **parts)
    assert sparse.issparse(read_data(path).X)
    np.savez(path, X=X)
    with pytest.raises(DataFileError, match="'y'"):
        read_data(path)
    assert read_data(path, need_label=False).codes is None
    np.savez(path, X=np.array([[1.0, np.nan]]), y=[0])
    with pytest.raises(DataFileError, match="row 0, column 1"):
        read_data(path)
    np.savez(path, X=np.array([object()]), y=[0])
    with pytest.raises(DataFileError, match="NPZ"):
        read_data(path)


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"sepal": X[:, 0], "petal": X[:, 1], "species": Y})
    path = str(tmp_path / "data.parquet")
    pq.write_table(table, path)
    check(read_data(path))
    data = read_data(path, wanted=Wanted(2, ["petal", "sepal"]), need_label=False)
    np.testing.assert_array_equal(data.X, X[:, ::-1])
    pq.write_table(pa.table({"a": [1.0, None], "l": ["x", "y"]}), path)
    assert np.isnan(read_data(path).columns[0].values).tolist() == [False, True]
    with pytest.raises(DataFileError, match="row 1, column 'a': missing value"):
        read_data(path, wanted=Wanted(1, ["a"], "l"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataFileError, match=r"bad\.parquet: cannot be read"):
        read_data(str(tmp_path / "bad.parquet"))


# -- models ------------------------------------------------------------------------------------


def test_columns_by_name(tmp_path):
    path = write(tmp_path, "species,petal,other,sepal\nsetosa,1.4,9,5.1\n")
    data = read_data(path, wanted=Wanted(2, ["sepal", "petal"], "species"))
    np.testing.assert_array_equal(data.X, [[5.1, 1.4]])
    assert data.y.tolist() == ["setosa"]
    with pytest.raises(DataFileError, match=r"lacks 1 of the 2.*'width'"):
        read_data(path, wanted=Wanted(2, ["sepal", "width"]), need_label=False)


def test_columns_by_place(tmp_path):
    path = write(tmp_path, "1,2\n3,4\n")
    assert read_data(path, wanted=Wanted(2), need_label=False).X.shape == (2, 2)
    data = read_data(path, wanted=Wanted(1), need_label=False)
    assert data.X.shape == (2, 1)
    assert "left out" in data.notes[0]
    with pytest.raises(DataFileError, match="trained on 5"):
        read_data(path, wanted=Wanted(5), need_label=False)


def test_a_single_feature(tmp_path):
    path = write(tmp_path, "x\n1\n2\n")
    np.testing.assert_array_equal(read_data(path, wanted=Wanted(1), need_label=False).X, [[1], [2]])


def test_labels_among(tmp_path):
    data = read_data(write(tmp_path, "a,l\n1,2\n2,1\n3,2\n"))
    assert data.labels_among(np.array([1, 2])).tolist() == [1, 0, 1]
    assert data.labels_among(np.array(["1", "2", "x"])).tolist() == [1, 0, 1]
    with pytest.raises(DataFileError, match="unknown label '2'"):
        data.labels_among(np.array([1, 3]))


# -- broken files ------------------------------------------------------------------------------

BROKEN = {
    "empty": ("", "is empty"),
    "blank": ("\n\n  \n", "no rows"),
    "header only": ("a,b,c\n", "header but no rows"),
    "one column": ("1\n2\n3\n", "single column"),
    "ragged": ("a,b,c\n1,2,x\n3,4,5,y\n", r"line 3: has 4 fields where 3"),
    "short row": ("a,b,c\n1,2,x\n3,y\n", r"line 3: has 2 fields where 3"),
    "infinite": ("a,b,c\n1,2,x\n3,inf,y\n", r"line 3: column 'b': inf is not finite"),
    "text": (
        "a,b,c\n" + "".join(f"{k},{k}.5,x\n" for k in range(99)) + "3,red,y\n",
        r"line 101: column 'b': 'red' is not a number, but 99 % of the column are; mend it, give "
        "--missing 'red'",
    ),
    "no label": ("a,b,c\n1,2,x\n3,4,\n", r"line 3: column 'c': the label is missing"),
    "binary": (b"\x00\x01\x02,\x00\n", "binary"),
    "latin": (b"a,b,c\n1,2,x\n3,4,\xe9\n", "line 3: is not UTF-8 text; give its --encoding"),
    "carriage returns": ("a,b,c\r1,2,x\r", "carriage returns only"),
    "carriage return": ("a,b,c\n1,2,x\n1,\r2,x\n", "line 3: has 2 fields where 3"),
    "only a byte order mark": ("\ufeff", "is empty"),
    "open quote": ('a,b,c\n1,2,"x\n3,4,y\n', "line 2: a quote is opened"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables(tmp_path, name):
    text, message = BROKEN[name]
    path = write(tmp_path, text)
    with pytest.raises(DataFileError, match=message) as caught:
        read_data(path)
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


def test_wrong_orders(tmp_path):
    path = write(tmp_path, TABLE)
    for order, message in (
        ({"delimiter": ";"}, "single column"),
        ({"label": "kind"}, "no column 'kind'"),
        ({"label": 7}, "no column 7"),
        ({"ignore": ["z"]}, "no column 'z'"),
        ({"delimiter": "ab"}, "one character"),
    ):
        with pytest.raises(DataFileError, match=message):
            read_data(path, **order)
    with pytest.raises(FileNotFoundError):
        read_data(str(tmp_path / "none.csv"))
    with pytest.raises(DataFileError, match="folder"):
        read_data(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2 x\n", "line 1: 'x' is not"),
        ("1 1:2\n2 1:nan\n", "line 2: feature 1: missing"),
        ("1 1:2\n2 1:a\n", "line 2: feature 1: 'a' is not a number"),
        ("1 1:2 1:3\n", "line 1: has the same feature twice"),
        ("1:2 2:3\n", "line 1: starts with"),
        ("1\n2\n", "no features"),
    ],
)
def test_broken_libsvm(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        read_data(write(tmp_path, text, "d.svm"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@relation r\n@attribute a real\n", "no @data"),
        ("@relation r\n@attribute a real\n@data\n1\n", "1 attributes"),
        (ARFF.replace("7.0,4.7,", "7.0,"), "line 9: has 2 fields"),
        (ARFF.replace("7.0,4.7,versicolor", "7.0,1e,versicolor"), "line 9: column 'petal': '1e'"),
        (ARFF.replace("7.0,4.7,versicolor", "7.0,1,rosa"), "line 9: column 'species': 'rosa'"),
        (ARFF.replace("{setosa, versicolor, 'virginica'}", "{}"), "line 5: attribute 'species' d"),
    ],
)
def test_broken_arff(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        read_data(write(tmp_path, text, "d.arff"))


def test_a_regression_target_is_no_label(tmp_path):
    text = "a,b\n" + "".join(f"{k},{k / 7}\n" for k in range(33000))
    with pytest.raises(DataFileError, match="different values"):
        read_data(write(tmp_path, text))


SEEDS = {
    "csv": b'a,b,c\n1.5,2,x\n3,4e-3,y\n"5",6,x\n',
    "svm": b"1 1:2 3:4.5\n2 2:1e3 # c\n1 1:1\n",
    "arff": b"@relation r\n@attribute a real\n@attribute b {u,v}\n@attribute c {x}\n@data\n1,u,x\n",
}


def test_damaged_files_are_read_or_refused(tmp_path):
    """Whatever stands in a file: data, or one line."""
    draw = random.Random(0)
    for _ in range(300):
        kind = draw.choice(list(SEEDS))
        text = bytearray(SEEDS[kind])
        for _ in range(draw.randrange(1, 6)):
            place = draw.randrange(len(text))
            text[place : place + draw.randrange(3)] = bytes(
                [draw.choice(b'019.,:\t \n\r"{}?%@e-x\xff')]
            )
        path = write(tmp_path, bytes(text), f"data.{kind}")
        for orders in ({}, {"wanted": Wanted(2, ["a", "b"], "c"), "need_label": False}):
            try:
                assert read_data(path, **orders).shape[0] > 0
            except DataFileError as error:
                assert "\n" not in str(error)  # noqa: PT017
