"""The table of Ñanculef et al. (2009): AD-SVM, one-vs-rest and one-vs-one on five data sets.

One thread for everybody: the libraries read these variables when they are loaded.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
