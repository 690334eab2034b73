"""
How small a gap do you need?
============================

Training stops when the certified gap falls below ``tol``. The smaller it is, the longer a fit
takes. Labels of new rows hardly change any more below 1e-3, the default.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import MulticlassSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)

tols = (0.5, 0.2, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6)
models = [MulticlassSVC(C=1.0, tol=tol, random_state=0).fit(X_train, y_train) for tol in tols]
gaps = [model.certificate_.relative_gap for model in models]
errors = [100 * (1 - model.score(X_test, y_test)) for model in models]
changed = [100 * (model.predict(X_test) != models[-1].predict(X_test)).mean() for model in models]

figure, ax = plt.subplots(layout="constrained")
ax.plot(gaps, errors, "o-", label="test error")
ax.plot(gaps, changed, "s--", label="labels unlike those at the smallest gap")
ax.axvline(1e-3, color="0.6", linestyle=":", label="default of tol")
ax.set(xscale="log", xlabel="certified relative gap", ylabel="per cent of the test rows")
ax.invert_xaxis()
ax.legend()
plt.show()
