"""
Where one label is not enough
=============================

A set holds every label that remains plausible; 95 of 100 sets hold the true one, whatever the
model. Between the classes sets have two labels, elsewhere one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split

from polymargin import MulticlassSVC

X, y = make_blobs(900, centers=[[-2, 0], [2, 0], [0, 2.5]], cluster_std=1.2, random_state=0)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=2 / 3, random_state=0)
X_held, X_new, y_held, y_new = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)

model = MulticlassSVC(C=1.0, random_state=0).fit(X_train, y_train)
model.calibrate(X_held, y_held)

across, up = np.meshgrid(np.linspace(-6, 6, 240), np.linspace(-4, 6.5, 210))
grid = np.column_stack([across.ravel(), up.ravel()])
size = model.predict_set(grid, coverage=0.95).sum(axis=1).reshape(across.shape)

figure, ax = plt.subplots(layout="constrained")
shade = ax.contourf(across, up, size, levels=[-0.5, 0.5, 1.5, 2.5, 3.5], cmap="Greys", alpha=0.6)
for label, marker in enumerate("osD"):
    ax.scatter(*X_new[y_new == label].T, s=12, marker=marker, label=f"class {label}")
figure.colorbar(shade, ax=ax, ticks=[0, 1, 2, 3], label="labels in the set")
ax.legend()
plt.show()

# %%
sets = model.predict_set(X_new, coverage=0.95)
print(f"true label inside: {sets[range(len(y_new)), y_new].mean():.1%}")
print(f"labels per set:    {sets.sum(axis=1).mean():.2f}")
print(f"one label only:    {model.score(X_new, y_new):.1%} right")
