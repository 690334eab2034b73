"""Nominal costs: what the parts of a solver take, in seconds that no clock has read.

A solver chooses between a pass and a check, or between descent and the interior point, by what
each costs.  If the choice depended on a clock, the same seed would give different models on a busy
machine; so work is counted, and the counts are turned into seconds by the rates below.  The rates
were measured on one core of a 2 GHz server processor (satimage, letter, usps and covtype, dense
and sparse).  Only their ratios matter, and a rate that is off by a factor of two costs some per
cent of the time of a fit, never its correctness.

Two things do read the clock, because they keep promises about real time: ``Budget`` (how long one
compiled call may run) and ``judge_seconds`` compared with ``max_time``.
"""

from __future__ import annotations

import scipy.sparse as sp

from polymargin.problem.problem import Problem

__all__ = [
    "Budget",
    "class_check_seconds",
    "interior_point_seconds",
    "judge_seconds",
    "kernel_check_seconds",
    "kernel_pass_seconds",
    "linear_check_seconds",
    "linear_visit_seconds",
    "row_width",
]

_VISIT = 30e-9  # of a variable on linear data, whatever its row: lists, bounds, the step itself
_DENSE_NUMBER = 0.3e-9  # of a number of a dense row: read and pushed by vector instructions
_SPARSE_NUMBER = 3e-9  # of a number of a sparse row: every one touches another cache line
_KERNEL_VISIT = 20e-9  # of a variable whose score is at hand
_KERNEL_NUMBER = 1e-9  # of a number of a kernel row: computed once, pushed some times
_PASS = 1e-4  # of the Python around a pass: most of what a pass over some dozen patterns costs
_SCREENED = 2e-9  # of a score that the compiled screen looks at
_PRODUCT = 0.1e-9  # of a multiplication inside a BLAS product
_CHECK = 3e-4  # of the Python around a check of a machine
_CHECKED = 20e-9  # of a score that the NumPy form of a check looks at, a dozen passes together

_FLOPS_PER_SECOND = 1.5e10  # of a factorisation and of the products before it
_INTERIOR_ITERATIONS = 20  # of the interior point, as a rule
_INTERIOR_START = 2e-3
_INTERIOR_NUMBER = 4e-7  # of a variable in one iteration: some forty passes over it


def row_width(problem: Problem) -> float:
    """Numbers in a row of the data, on average."""
    rows = problem.rows
    if sp.issparse(rows):
        return float(rows.nnz / max(problem.n_patterns, 1))
    return float(rows.shape[1])


def linear_visit_seconds(problem: Problem) -> float:
    """A visit to one variable of a pattern, explicit prototypes."""
    number = _SPARSE_NUMBER if sp.issparse(problem.rows) else _DENSE_NUMBER
    return _VISIT + number * row_width(problem)


def linear_check_seconds(problem: Problem) -> float:
    """A product of all data with all prototypes, and the screen of its scores."""
    size = problem.n_patterns * problem.n_prototypes
    return size * (_SCREENED + _PRODUCT * row_width(problem))


def kernel_pass_seconds(visits: float, steps: float, n_in_play: int, pushes: float = 1.0) -> float:
    """A pass over a working set: every step pushes its kernel row into ``pushes`` prototypes."""
    return _PASS + _KERNEL_VISIT * visits + _KERNEL_NUMBER * pushes * steps * n_in_play


def kernel_check_seconds(n_outside: int, n_in_play: int) -> float:
    """Scores of the patterns outside a working set."""
    return _KERNEL_NUMBER * n_outside * n_in_play


def class_check_seconds(n_scores: int, width: float, is_compiled: bool) -> float:
    """A check of a machine with one prototype per class, scores at hand or of rows ``width``."""
    look = _SCREENED if is_compiled else _CHECKED
    return _CHECK + n_scores * (look + _PRODUCT * width)


def interior_point_seconds(n: int, width: int, R: int) -> float:
    """The interior point on n rows of the feature map and R prototypes."""
    normal = n * float(width) ** 2 * R * (R + 1)
    factor = (R * float(width)) ** 3 / 3.0
    iteration = (normal + factor) / _FLOPS_PER_SECOND + _INTERIOR_NUMBER * n * R
    return _INTERIOR_START + _INTERIOR_ITERATIONS * iteration


def judge_seconds(problem: Problem, n_support: int) -> float:
    """About what the certificate costs: scores of all patterns against the support, in float64.

    A kernel value is a product of two rows (8e9 multiplications a second, a tenth of that on sparse
    rows) and 4 ns for the function; a kernel in Python takes three times as long.
    """
    X = problem.X
    n, width = X.shape
    if sp.issparse(X):
        width = int(10 * X.nnz / max(n, 1))
    if problem.kernel.is_linear:
        return 0.0  # one product with the data, as every check
    if problem.kernel.name == "precomputed":
        width = 1
    slow = 3.0 if problem.kernel.function is not None else float(len(problem.kernel.parts) or 1)
    return slow * n * n_support * (width / 8e9 + 4e-9) / max(problem.n_jobs, 1)


class Budget:
    """How many variables one compiled call may visit, so that it returns after 0.08 seconds.

    Compiled code sees neither Ctrl-C nor ``max_time``: Python must look up several times a second.
    The number of visits changes nothing but that (compiled loops go on where they stopped), so the
    rate may follow the clock.
    """

    _CALL = 0.8e8  # nanoseconds
    _FEWEST = 256  # visits: below that the call itself costs more than the work
    _TELLING = 2000  # visits from which on a measured time says something

    def __init__(self, nanoseconds_per_visit: float) -> None:
        self.rate = nanoseconds_per_visit

    @property
    def visits(self) -> int:
        return max(self._FEWEST, int(self._CALL / self.rate))

    def learn(self, seconds: float, visits: float) -> None:
        """Half of the old rate and half of what was measured."""
        if visits > self._TELLING:
            self.rate = max(1.0, 0.5 * (self.rate + 1e9 * seconds / visits))
