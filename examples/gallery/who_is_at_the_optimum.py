"""
Who is at the optimum?
======================

scikit-learn's ``LinearSVC(multi_class="crammer_singer")`` solves the same problem as
``MulticlassSVC("cs")``, but says nothing about how well. The certificate of one model judges
both: its dual value is a number that no model can go below.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from polymargin import MulticlassSVC

X, y = load_digits(return_X_y=True)
X = X / 16
C = 1.0


def objective(model):
    """Half the squared norm plus C times the hinge losses of Crammer and Singer."""
    rows = np.arange(len(y))
    rivals = model.decision_function(X)
    own = rivals[rows, y].copy()
    rivals[rows, y] -= 1
    losses = np.maximum(0, 1 + rivals.max(axis=1) - own)
    norm2 = (model.coef_**2).sum() + (model.intercept_**2).sum()
    return 0.5 * norm2 + C * losses.sum()


bound = MulticlassSVC(C=C, tol=1e-8, random_state=0).fit(X, y).certificate_.dual

tols = (1e-1, 1e-2, 1e-3, 1e-4)
theirs, ours = [], []
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of an iteration limit that this solver never sees
    for tol in tols:
        other = LinearSVC(multi_class="crammer_singer", C=C, tol=tol, random_state=0).fit(X, y)
        theirs.append(objective(other) / bound - 1)
for tol in tols:
    ours.append(objective(MulticlassSVC(C=C, tol=tol, random_state=0).fit(X, y)) / bound - 1)

figure, ax = plt.subplots(layout="constrained")
ax.plot(tols, theirs, "s--", label="LinearSVC")
ax.plot(tols, ours, "o-", label="MulticlassSVC")
ax.plot(tols, tols, color="0.6", linestyle=":", label="distance = tol")
ax.set(xscale="log", yscale="log", xlabel="tol", ylabel="distance above the bound, relative")
ax.invert_xaxis()
ax.legend()
plt.show()

# %%
# For ``MulticlassSVC`` the distance is below ``tol`` by definition. For ``LinearSVC`` ``tol``
# is the largest violation of an optimality condition, from which no distance follows.
