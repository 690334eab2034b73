"""Data files made to break readers: odd names, sizes that explode, lengths that cost squares."""

import json
import os
import time
import tracemalloc

import numpy as np
import pytest

from polymargin import DataFileError, ModelFileError
from polymargin.datasets import read_data
from polymargin.datasets.dataset import LabelTable

ROWS = b"a,b,y\n1,2,u\n3,4,v\n"
ARFF = b"@relation r\n@attribute a numeric\n@attribute y {p,q}\n@data\n{0 1, 1 q}\n"
JSON = b'{"a": 1, "b": 2, "y": "u"}\n{"a": 3, "b": 4, "y": "v"}\n'


def refusal(path, **options):
    """The one line of a refusal."""
    with pytest.raises(DataFileError) as caught:
        read_data(path, **options)
    text = str(caught.value)
    assert text.isprintable(), text
    return text


@pytest.mark.parametrize(
    "name", [b"new\nline", b"bad\xff", b"quo'te\"", b"st*r[1]", b"-dash", b"a b\t;", b"\xc3\xa9"]
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "csv.zst", "parquet"])
def test_names_of_files(name, suffix, tmp_path):
    """Names with line breaks, wildcards, quotes or bytes that are no text are read like others."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name + b"." + suffix.encode())
    pa = pytest.importorskip("pyarrow")
    if suffix == "parquet":
        import pyarrow.parquet as pq

        with open(path, "wb") as file:
            pq.write_table(pa.table({"a": [1, 3], "b": [2, 4], "y": ["u", "v"]}), file)
    else:
        content = JSON if suffix == "jsonl" else ROWS
        packed = pa.compress(content, codec="zstd", asbytes=True) if "zst" in suffix else content
        with open(path, "wb") as file:
            file.write(packed)
    data = read_data(path)
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert data.labels == ["u", "v"]


def test_messages_stay_in_one_line_whatever_the_file_is_called(tmp_path):
    path = tmp_path / "two\nlines\udcff.csv"
    path.write_bytes(b"a,b,y\n1,2,u\n3,x\n")
    assert "two\\nlines\\udcff.csv, line 3" in refusal(path)
    assert str(ModelFileError("a\nb: is empty")) == "a\\nb: is empty"


@pytest.mark.parametrize("path", ["", "a\0b.csv"])
def test_what_is_no_name(path):
    assert "is no name of a file" in refusal(path)


@pytest.mark.parametrize("row", [b"{00000000009 1}", b"{" + b"0" * 5000 + b"9 1}", b"{2 1}"])
def test_sparse_arff_index_beyond_the_attributes(row, tmp_path):
    path = tmp_path / "rows.arff"
    path.write_bytes(ARFF + row + b"\n")
    assert "is not 'index value'" in refusal(path)


def test_sparse_arff_index_with_zeros(tmp_path):
    path = tmp_path / "rows.arff"
    path.write_bytes(ARFF + b"{00000000000 7}\n")
    assert read_data(path).X.ravel().tolist() == [1.0, 7.0]


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "-9"])
def test_column_numbers_of_any_length(number, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(ROWS)
    assert "there is no column" in refusal(path, label=number)


def test_npz_member_that_is_no_array(tmp_path):
    import zipfile

    path = tmp_path / "rows.npz"
    np.savez(path, X=np.eye(2), y=[0, 1])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("feature_names.npy", b"no array")
    assert "'feature_names' is no NumPy array" in refusal(path)


def test_npz_is_bounded_like_other_packed_files(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, X=np.zeros((1000, 1000)), y=np.arange(1000) % 2)
    assert "--max-bytes" in refusal(path, max_bytes=1 << 20)
    assert read_data(path, max_bytes=1 << 24).shape == (1000, 1000)


def test_parquet_of_equal_values_is_bounded(tmp_path):
    """A few bytes stand for millions of rows."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    same = pa.array(np.zeros(1_000_000))
    pq.write_table(pa.table({"a": same, "b": same}), path)
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        assert "holds 16000000 bytes" in refusal(path, max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert read_data(path, max_bytes=1 << 30).shape == (1_000_000, 1)


def test_parquet_of_one_long_text_is_bounded(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    numbers = pa.array(np.zeros(2000, dtype=np.int32))
    text = pa.DictionaryArray.from_arrays(numbers, pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"a": text, "y": ["u", "v"] * 1000}), path)
    assert "holds 20002000 bytes" in refusal(path, max_bytes=1 << 20)
    assert read_data(path).shape == (2000, 1)


def test_json_lines_with_many_different_keys(tmp_path):
    """Each key is a column of every row: read where that is small, else refused with the size."""
    path = tmp_path / "rows.jsonl"
    rows = [f'{{"k{k}": {k}, "y": "{"uv"[k % 2]}"}}\n' for k in range(400)]
    path.write_text("".join(rows))
    data = read_data(path, label="y")
    assert data.shape == (400, 400)
    assert data.columns[7].values[7] == 7.0
    assert "holds 1283200 bytes" in refusal(path, label="y", max_bytes=1 << 20)


def test_many_long_labels_take_linear_time():
    def seconds(count):
        best = np.inf
        for _ in range(3):
            begun = time.process_time()
            table = LabelTable()
            for k in range(count):
                table.code(f"{k:02000d}")
            best = min(best, time.process_time() - begun)
        return best

    seconds(10)
    assert seconds(6000) < 16 * seconds(1500) + 0.05  # 4 where it is linear, 16 where squared


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_wide_tables_of_words_take_one_query(suffix, tmp_path):
    """One query for each of the columns took minutes."""
    words = {f"c{k}": f"w{k % 7}" for k in range(1500)}
    gaps = {name: None if k % 3 else word for k, (name, word) in enumerate(words.items())}
    rows = [words | {"y": "u"}, gaps | {"y": "v"}]
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        lines = [
            ",".join(rows[0]),
            *(",".join(word or "" for word in row.values()) for row in rows),
        ]
    else:
        lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    begun = time.process_time()
    data = read_data(path)
    assert [c.values[0] for c in data.columns] == [f"w{k % 7}" for k in range(1500)]
    assert data.columns[1].values[1] is None
    assert time.process_time() - begun < 5.0


@pytest.mark.parametrize("gap", ["", "?", "word"])
def test_hundreds_of_columns_take_no_time(gap, tmp_path):
    """DuckDB took 5 s to plan 200 columns, and minutes for 400: cubic in their number."""
    path = tmp_path / "rows.csv"
    lines = [",".join(str(k + row) for k in range(300)) for row in range(250)]
    lines[-1] = gap + lines[-1].removeprefix("249")
    path.write_text("".join(f"{line},{'uv'[k % 2]}\n" for k, line in enumerate(lines)))
    begun = time.process_time()
    if gap == "word":
        assert "'word' is not a number" in refusal(path)
    else:
        data = read_data(path)
        assert data.shape == (250, 300)
        assert np.isnan(data.columns[0].values[-1])
        assert data.columns[1].values[-1] == 250
    assert time.process_time() - begun < 5.0


def test_dates_with_few_digits(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("when,y\n1-Jan-20,u\n2-Feb-21,v\n")
    assert read_data(path).columns[0].kind == "date"


def test_json_objects_with_a_key_twice(tmp_path):
    """DuckDB notices while columns are looked at, and while they are read."""
    files = {
        "seen": '{"a": 1, "y": 1, "y": "red"}\n{"a": "x", "y": "blue"}\n',
        "read": '{"b": 1, "y": 2, "b": 3}\n{"b": -1, "y": 3}\n',
    }
    for name, text in files.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text(text)
        with pytest.raises(DataFileError, match="duplicate key") as refused:
            read_data(str(path))
        assert "\n" not in str(refused.value)
        assert "Try setting" not in str(refused.value)
