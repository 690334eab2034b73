"""Compile an exported header for a Cortex-M, run it under QEMU, and print what it costs.

    python emulate.py MODEL.h ROWS.csv [--core cortex-m3]

ROWS.csv has one example per line, numbers only (a first line of names is skipped).  Needed are
arm-none-eabi-gcc with newlib, and qemu-system-arm:

    apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
"""

import argparse
import csv
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
BOARDS = {
    "cortex-m3": ("mps2-an385", ["-mcpu=cortex-m3"]),
    "cortex-m4": ("mps2-an386", ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]),
}
NANOSECONDS_PER_TICK = 40  # SysTick of these boards runs at 25 MHz
TOOLS = ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")


@dataclass(frozen=True)
class Run:
    """Class numbers, instructions of one prediction, bytes of code and tables, of RAM."""

    classes: list
    instructions: float
    flash_bytes: int
    ram_bytes: int
    core: str

    def text(self):
        """For people."""
        return (
            f"{self.core}: {len(self.classes)} rows, {self.instructions:.0f} instructions per "
            f"prediction\nflash {self.flash_bytes} bytes (code and tables), RAM "
            f"{self.ram_bytes} bytes (tables) and the stack"
        )


def missing_tools():
    """Names of programs that are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def read_rows(path):
    """Rows of numbers; a first line of names is skipped."""
    with open(path, newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    try:
        [float(word) for word in lines[0]]
    except ValueError:
        lines = lines[1:]
    return [[float(word) for word in line] for line in lines]


def emulate(header, rows, core="cortex-m3"):
    """Build the firmware around a header, run it, and read what it says."""
    board, flags = BOARDS[core]
    text = Path(header).read_text()
    name = re.search(r"#define POLYMARGIN_EXPORT_(\w+)", text).group(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "model.h").write_text(f"#define MODEL(x) {name}_##x\n{text}")
        (folder / "rows.h").write_text(_rows_text(rows))
        model = 'typedef int unused;\n#include "model.h"\nint classify(const float *x);\n'
        model += "int classify(const float *x) { return MODEL(predict)(x); }\n"
        (folder / "classify.c").write_text(model)
        gcc = ["arm-none-eabi-gcc", *flags, "-mthumb", "-O2", "-std=c99", "-I", str(folder)]
        _run([*gcc, "-c", str(folder / "classify.c"), "-o", str(folder / "classify.o")])
        sizes = _run(["arm-none-eabi-size", str(folder / "classify.o")]).split("\n")[1].split()
        link = ["-nostartfiles", "--specs=nosys.specs", "-T", str(FOLDER / "memory.ld")]
        image = folder / "firmware.elf"
        sources = [str(FOLDER / "firmware.c"), "-lm", "-lc", "-lgcc"]
        _run([*gcc, *link, "-o", str(image), *sources])
        said = _run(
            ["qemu-system-arm", "-machine", board, "-nographic", "-icount", "shift=0",
             "-chardev", "stdio,id=out", "-semihosting-config",
             "enable=on,target=native,chardev=out", "-monitor", "none", "-serial", "none",
             "-kernel", str(image)]
        )  # fmt: skip
    *classes, last = said.split("\n")[: len(rows) + 1]
    ticks = int(last.removeprefix("ticks "))
    instructions = ticks * NANOSECONDS_PER_TICK / max(1, len(rows))
    flash, ram = int(sizes[0]), int(sizes[1]) + int(sizes[2])
    return Run([int(c) for c in classes], instructions, flash, ram, core)


def _rows_text(rows):
    lines = ",\n".join("{" + ", ".join(f"{v:.9e}f" for v in row) + "}" for row in rows)
    return (
        f"#define N_ROWS {len(rows)}\n"
        f"static const float rows[N_ROWS][{len(rows[0])}] = {{\n{lines}\n}};\n"
    )


def _run(command):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("header")
    parser.add_argument("rows")
    parser.add_argument("--core", choices=BOARDS, default="cortex-m3")
    given = parser.parse_args()
    if missing_tools():
        sys.exit(f"not installed: {', '.join(missing_tools())}")
    run = emulate(given.header, read_rows(given.rows), given.core)
    print("\n".join(str(c) for c in run.classes))
    print(run.text(), file=sys.stderr)


if __name__ == "__main__":
    main()
