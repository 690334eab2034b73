"""
A hundred values of C at the price of twenty
============================================

A regularisation path solves the problem for a few values of C and mixes the solutions in
between. Every point, also a mixed one, carries its own certificate.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import regularization_path

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
X_fit, X_val, y_fit, y_val = train_test_split(X_train, y_train, random_state=0)

path = regularization_path(X_fit, y_fit, n_points=100, X_val=X_val, y_val=y_val, tol=1e-2)
path.plot()
plt.show()

# %%
best = path.best()
print(f"{len(path)} values of C by {path.n_solves} runs of the solver")
print(f"largest certified gap: {path.relative_gap.max():.1e}")
print(f"C = {path.Cs[best]:.3g}, right on test rows: {path.model(best).score(X_test, y_test):.1%}")
