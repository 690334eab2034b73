"""The multi-prototype machine: energy reached, test error, time to fit and to predict.

Published values are those of Aiolli & Sperduti, Multiclass Classification with Multi-Prototype
Support Vector Machines, JMLR 6 (2005) 817-850.  Three parts, each with a table of its own:

- ``energy``: how low the annealing gets at equal C and number of prototypes, which no test set can
  flatter;
- ``accuracy``: test error over the number of prototypes per class; C, metric and rows (USPS: as
  given or of unit length) chosen on training data;
- ``speed``: seconds of fit, and prediction beside a Gaussian ``SVC``.
"""

from __future__ import annotations

from benchmarks.options import Options
from benchmarks.prototypes import accuracy, energy, speed
from benchmarks.report import Report

__all__ = ["run"]


def run(options: Options) -> Report:
    """All parts; the fits that are timed take what the second part chose."""
    report = Report(
        "prototypes",
        "MultiPrototypeSVC: energy, test error and speed",
        "Linear prototypes, penalised intercept, `tol=1e-3`; LETTER is scaled to [-1, 1] by "
        "its training part, MNIST to [0, 1]. Published: Aiolli & Sperduti, JMLR 6 "
        "(2005). One thread; warm; float64.",
    )
    energy.run(report, options)
    chosen = accuracy.run(report, options)
    speed.run(report, options, chosen)
    return report
