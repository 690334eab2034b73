"""The convergence figures of the SMO-like family (Aiolli and Sperduti, 2002 and 2005) on digits.

One thread for everybody: the libraries read these variables when they are loaded.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
