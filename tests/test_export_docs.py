"""The examples of docs/export.md run as they stand there."""

import re
import subprocess
from pathlib import Path

import pytest
from export_tools import FLAGS, compiler

PAGE = Path(__file__).parent.parent / "docs" / "export.md"


@pytest.mark.filterwarnings("ignore")
def test_examples(tmp_path, monkeypatch):
    for name in ("onnx", "onnxruntime", "skl2onnx"):
        pytest.importorskip(name)
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    (block,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    declared = "int read_digit(const float *);\nint read_scores(const float *);\n"
    Path("use.c").write_text(declared + block)
    subprocess.run([compiler(), *FLAGS, "-c", "use.c", "-o", "use.o"], check=True)
    (sketch,) = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    board = (
        "struct Port { void begin(long) {} template <class T> void println(T) {} } Serial;\n"
        "const int A0 = 0;\ninline int analogRead(int) { return 0; }\n"
        "void setup();\nvoid loop();\n"
    )
    Path("sketch.cpp").write_text(board + sketch)
    subprocess.run([compiler("g++"), "-Wall", "-Werror", "-c", "sketch.cpp"], check=True)
