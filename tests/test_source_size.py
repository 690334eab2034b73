"""The script that counts lines of code and complexity."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "source_size.py"
SOURCE = '''"""A docstring
of two lines."""

# a comment
WORD = """text that is
data"""


def branches(x):
    """Not counted."""
    if x:  # counted
        for _ in x:
            pass
    def inner():
        while x:
            return 1
    return inner
'''


def test_what_counts(tmp_path):
    specification = importlib.util.spec_from_file_location("source_size", TOOL)
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    path = tmp_path / "layer" / "file.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    size = tool.measure(path)
    assert size.lines == 10
    assert sorted(size.lengths) == [3, 8]
    assert sorted(size.complexities) == [2, 3]
    assert tool.row("layer", tool.layers(tmp_path)["layer"]).split()[:4] == [
        "layer",
        "1",
        "10",
        "2",
    ]
