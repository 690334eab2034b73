"""
Accuracy against model size
===========================

A kernel machine keeps a good part of its training rows. Prototypes reach most of its accuracy
with a small part of its numbers, and how many there are is your choice.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import MulticlassSVC, MultiPrototypeSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)

counts = (1, 2, 3, 5, 8)
sizes, errors = [], []
for q in counts:
    model = MultiPrototypeSVC(q, C=0.3, random_state=0).fit(X_train, y_train)
    sizes.append(model.prototypes_.size + model.intercept_.size)
    errors.append(100 * (1 - model.score(X_test, y_test)))
kernel = MulticlassSVC(kernel="rbf", gamma=0.5, C=3).fit(X_train, y_train)
kernel_size = kernel.support_vectors_.size + kernel.dual_coef_.size
kernel_error = 100 * (1 - kernel.score(X_test, y_test))

figure, ax = plt.subplots(layout="constrained")
ax.plot(sizes, errors, "o-", label="prototypes per class")
for q, size, error in zip(counts, sizes, errors, strict=True):
    ax.annotate(str(q), (size, error), textcoords="offset points", xytext=(5, 5))
ax.plot(kernel_size, kernel_error, "s", label="RBF kernel machine")
ax.set(xscale="log", xlabel="numbers in the model", ylabel="test error [%]", ylim=(0, None))
ax.legend()
plt.show()

# %%
# ``MultiPrototypeSVCCV`` chooses the number by validation,
# ``MultiPrototypeSVC(fit_into="8kB")`` finds the best model of a size in bytes:
# :doc:`/firmware`.
