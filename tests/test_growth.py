"""Readers take time and memory in proportion to their files: the short form of ``fuzz.growth``."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder fuzz lies beside the tests

from fuzz import growth

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="memory is measured by Linux"
)


@pytest.mark.parametrize("name", ["csv words", "csv 300 columns", "libsvm labels", "arff sparse"])
def test_reading_is_linear(name):
    growth.measure(name, 1 << 12)  # compiled
    seconds, memory = growth.measure(name, 1 << 20)
    assert seconds < growth.SECONDS * (1 << 20) + 1.0
    assert memory < growth.MEMORY * (1 << 20) + growth.SPARE_BYTES
