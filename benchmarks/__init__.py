"""Benchmarks of polymargin: ``python -m benchmarks --help``.

One thread for everybody.  The libraries read these variables when they are loaded, so they are set
here, before any module of this package imports NumPy; ``machine.require_one_thread`` checks it.
"""

import os

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
