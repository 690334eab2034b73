"""Seeds and past failures of the fuzz targets, replayed without a fuzzer."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder fuzz lies beside the tests

from fuzz.choices import Choices
from fuzz.models import base_files, load_bytes
from fuzz.targets import CORPUS, REGRESSIONS, TARGETS
from polymargin.exceptions import DataFileError


def inputs(name):
    folders = (CORPUS / name, REGRESSIONS / name)
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_replay(name):
    for path in inputs(name):
        try:
            TARGETS[name](path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{path}: {error}") from error


def test_base_models_load():
    for data in base_files():
        load_bytes(data)


def test_a_target_fails_where_something_is_wrong():
    """A reader that lets another error through, or says nothing, is noticed."""
    for error in (IndexError("no"), DataFileError(" ")):

        def broken(*args, error=error, **options):
            raise error

        with pytest.raises((IndexError, AssertionError)):
            TARGETS["read_csv"](b"\x00a,b\n", read=broken)


def test_choices_never_end():
    choices = Choices(b"\x05")
    assert [choices.number(4), choices.number(1000), choices.bytes(9)] == [1, 0, b""]
