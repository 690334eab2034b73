"""Full disks, folders that cannot be written, too little memory: one line, nothing lost."""

import os
import resource

import numpy as np
import pytest
from commands import (
    FAULTS,
    assert_old_or_new,
    assert_one_line,
    run,
    temporary_files,
    write_data,
    write_old_model,
)

import polymargin


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.npz"
    write_data(path, n=200)
    return path


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_disk_that_becomes_full(size, data, tmp_path):
    """A limit on the size of files fails like a full disk, after the first bytes."""
    target = tmp_path / "model.pm"
    old = write_old_model(target)
    code, err = run(
        *("train", "-m", "CS", "-c", "1", data, "-o", target), limits={resource.RLIMIT_FSIZE: size}
    )
    assert code == 1, err
    assert_one_line(err, code)
    assert target.read_bytes() == old
    assert temporary_files(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("command", ["info", "predict", "evaluate"])
def test_output_that_is_full(command, data, tmp_path):
    model = tmp_path / "model.pm"
    run("train", "-q", "-m", "CS", "-c", "1", data, "-o", model)
    arguments = (command, model) if command == "info" else (command, model, data)
    with open("/dev/full", "w") as full:
        code, err = run(*arguments, stdout=full)
    assert code == 1
    assert_one_line(err, code)


def test_model_on_a_full_device(data):
    """A device cannot be replaced by a file; what it answers is told."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    code, err = run("train", "-m", "CS", "-c", "1", data, "-o", "/dev/full")
    assert code == 1
    assert_one_line(err, code)
    assert "No space left" in err


@pytest.mark.parametrize("target", ["/proc/model.pm", "/nowhere/model.pm", "/dev/null/model.pm"])
def test_folder_that_cannot_be_written(target, data):
    """Found before the training, which would be lost."""
    code, err = run("train", "-m", "CS", "-c", "1", data, "-o", target)
    assert code == 1
    assert_one_line(err, code)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(data, tmp_path):
    tmp_path.chmod(0o500)
    try:
        code, err = run("train", "-m", "CS", "-c", "1", data, "-o", tmp_path / "model.pm")
    finally:
        tmp_path.chmod(0o700)
    assert code == 1
    assert_one_line(err, code)
    assert os.listdir(tmp_path) == []


def test_no_home(data, tmp_path):
    model = tmp_path / "model.pm"
    gone = {"HOME": "/nowhere", "XDG_CACHE_HOME": str(tmp_path / "cache" / "deep")}
    if FAULTS > 3:  # nothing compiled can be kept, or the whole is compiled: a minute
        code, err = run("train", "-m", "CS", "-c", "1", data, "-o", model, environment=gone)
        assert code == 0, err
    else:
        write_old_model(model)
    code, err = run("info", model, environment=gone)
    assert code == 0, err


@pytest.mark.skipif(FAULTS <= 3, reason="dozens of processes: make faults")
@pytest.mark.parametrize("command", ["train", "predict", "load"])
def test_little_memory(command, data, tmp_path):
    """Whatever the limit: done, or one line; no crash and no half-written file."""
    model, wide = tmp_path / "model.pm", tmp_path / "wide.npz"
    old = write_old_model(model)
    rng = np.random.default_rng(0)
    n = 3000
    np.savez(wide, X=rng.normal(size=(n, 300)), y=rng.integers(0, 3, n))
    arguments = {
        "train": ("train", "-m", "CS", "-k", "rbf", "-c", "1", wide, "-o", model),
        "predict": ("predict", "-q", model, data),
        "load": ("info", model),
    }[command]
    steps = np.linspace(600e6, 2600e6, 3 if FAULTS <= 3 else 20)
    for limit in steps:
        code, err = run(
            *arguments,
            limits={resource.RLIMIT_AS: int(limit)},
            environment={"OPENBLAS_NUM_THREADS": "1"},
        )
        if command == "predict" and code == 1 and "features" in err:
            break  # the model knows other data: told in one line
        assert code in (0, 1), (limit, code, err)
        if code == 1:
            assert "Traceback" not in err or "MemoryError" in err or "ImportError" in err, err
        assert_old_or_new(model, old)
        assert temporary_files(tmp_path) == []
    polymargin.load(model)
