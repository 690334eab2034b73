"""
Classes between others: one-vs-rest loses them
==============================================

One-vs-rest looks for one line that separates a class from *all* others. For a class that lies
between two others there is none. A machine that trains all classes together only needs the own
score to be the highest.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.svm import LinearSVC

from polymargin import MulticlassSVC
from polymargin.plots import DecisionRegionDisplay

X, y = make_blobs(
    300, centers=[[-6, 0], [-3, 0], [0, 0], [3, 0], [6, 0]], cluster_std=0.5, random_state=0
)
models = {
    "LinearSVC, one-vs-rest": LinearSVC().fit(X, y),
    "MulticlassSVC, all classes together": MulticlassSVC().fit(X, y),
}

figure, axes = plt.subplots(1, 2, figsize=(11, 3), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    DecisionRegionDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"{name}: {model.score(X, y):.0%} right")
plt.show()

# %%
# Of five classes in a row one-vs-rest gives most rows of the third one to its neighbours.
for name, model in models.items():
    print(f"{name}: {(model.predict(X) == y)[y == 2].mean():.0%} of the third class are right")
