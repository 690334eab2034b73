"""Run fuzz targets one after another, each for a share of the time.

    python -m fuzz --seconds 600                  all targets
    python -m fuzz --seconds 60 read_csv options  some of them
    python -m fuzz --inputs 100000                so many inputs of each, without coverage guiding
    python -m fuzz --inputs 5000 --first 15000 fits   so many fits, from number 15000 on

Inputs that fail are kept in ``fuzz/regressions/TARGET``, where the ordinary tests replay them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_RUN = """
import pathlib, pkgutil, sys, atheris
import polymargin.compiled, polymargin.solvers
# Numba compiles the byte code that it finds: what it compiles must not be instrumented.  Exclusions
# name single modules, not the modules below a package.
kept_plain = [
    module.name
    for package in (polymargin.compiled, polymargin.solvers)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]
with atheris.instrument_imports(include=["polymargin", "skops", "click"], exclude=kept_plain):
    from fuzz.targets import TARGETS
if {name!r}.startswith("model"):
    from fuzz.models import base_files
    base_files()  # fitted before the clock of single inputs runs
for seed in sorted(pathlib.Path({corpus!r}).glob("*"))[:1]:
    TARGETS[{name!r}](seed.read_bytes())  # compiled, likewise
atheris.Setup(sys.argv, TARGETS[{name!r}])
atheris.Fuzz()
"""
_INPUT_SECONDS, _MEMORY_MB = 25, 3000


def main() -> int:
    """Fuzz; 1 if a target failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="names of targets; all if none")
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together")
    parser.add_argument(
        "--inputs", type=int, help="run so many repeatable inputs of each target instead"
    )
    parser.add_argument("--first", type=int, default=0, help="go on where a campaign ended")
    parser.add_argument("--salt", default="1", help="another word gives other inputs")
    parser.add_argument("--list", action="store_true", help="name the targets and end")
    arguments = parser.parse_args()
    from fuzz.targets import TARGETS

    if arguments.list:
        print(*TARGETS, sep="\n")
        return 0
    names = arguments.targets or [name for name in TARGETS if name != "fits" or arguments.inputs]
    if unknown := set(names) - set(TARGETS):
        parser.error(f"unknown targets {sorted(unknown)}; there are {list(TARGETS)}")
    if arguments.inputs:
        return _count(names, arguments.first, arguments.inputs, arguments.salt)
    share = max(1, arguments.seconds // len(names))
    results = [_fuzz(name, share) for name in names]
    for name, (count, failed) in zip(names, results, strict=True):
        print(f"{name:14s} {count:9d} inputs  {'FAILED' if failed else 'ok'}")
    print(f"{'all':14s} {sum(count for count, _ in results):9d} inputs")
    return int(any(failed for _, failed in results))


def _count(names: list[str], first: int, inputs: int, salt: str) -> int:
    """Campaigns of so many inputs of each target; 1 if one of them found something."""
    from fuzz.campaign import run_campaign

    failed = False
    for name in names:
        outcome = run_campaign(name, first, inputs, salt)
        print(outcome.line(), flush=True)
        for place, said in outcome.failures.items():
            print(f"    {place}: {said}", flush=True)
        failed |= bool(outcome.failures)
    return int(failed)


def _fuzz(name: str, seconds: int) -> tuple[int, bool]:
    """How many inputs a target saw, and whether one of them failed."""
    from fuzz.targets import CORPUS, REGRESSIONS

    kept = REGRESSIONS / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _more_seeds(name, Path(folder))
        seeds = [str(path) for path in (CORPUS / name, kept) if path.is_dir()]
        command = [
            sys.executable,
            "-c",
            _RUN.format(name=name, corpus=str(CORPUS / name)),
            folder,
            *seeds,
        ]
        command += [f"-max_total_time={seconds}", f"-artifact_prefix={kept}/", "-max_len=65536"]
        command += [f"-timeout={_INPUT_SECONDS}", f"-rss_limit_mb={_MEMORY_MB}"]
        command += ["-print_final_stats=1", "-verbosity=0"]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    if not any(kept.iterdir()):
        kept.rmdir()
    count = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    if done.returncode:
        print(f"--- {name}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return int(count[1]) if count else 0, done.returncode != 0


def _more_seeds(name: str, folder: Path) -> None:
    """Model files as seeds: they belong to this version and are made anew."""
    if name == "model_file":
        from fuzz.models import base_files

        for k, data in enumerate(base_files()):
            (folder / f"base{k}").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
