"""
A kernel machine of a size you choose
=====================================

``landmarks`` replaces the exact kernel by one that is spanned by some training rows.
``exact_kernel_`` then encloses the optimum of the exact kernel: how much the approximation can
have lost is known, not hoped.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import MulticlassSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
settings = {"kernel": "rbf", "gamma": 0.5, "C": 1.0, "random_state": 0}
exact = MulticlassSVC(**settings).fit(X_train, y_train)

counts = (20, 50, 100, 200, 400, 800)
models = [MulticlassSVC(landmarks=m, **settings).fit(X_train, y_train) for m in counts]
upper = [model.exact_kernel_.primal for model in models]
lower = [model.exact_kernel_.dual for model in models]  # None where it would have cost too much
errors = [100 * (1 - model.score(X_test, y_test)) for model in models]

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.plot(counts, upper, "v-", label="upper bound (primal)")
left.plot(counts, [np.nan if d is None else d for d in lower], "^-", label="lower bound (dual)")
left.axhline(
    exact.certificate_.primal, color="0.5", linestyle="--", label="optimum of the exact kernel"
)
left.set(yscale="log", xlabel="landmarks", ylabel="objective")
left.legend()
right.plot(counts, errors, "o-", label="landmarks")
right.axhline(100 * (1 - exact.score(X_test, y_test)), color="0.5", linestyle="--",
              label=f"exact kernel, {len(exact.support_)} support vectors")  # fmt: skip
right.set(xlabel="landmarks", ylabel="test error [%]", ylim=(0, None))
right.legend()
plt.show()
