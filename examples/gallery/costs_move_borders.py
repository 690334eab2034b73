"""
Costs of mistakes move the borders
==================================

Missing a severe case costs twenty times as much as a false alarm. With ``cost_matrix`` the
machine is trained for that, and the region of the dangerous class grows.
"""

import matplotlib.pyplot as plt
import numpy as np

from polymargin import MulticlassSVC
from polymargin.plots import DecisionRegionDisplay

rng = np.random.default_rng(0)
names = np.array(["mild", "none", "severe"])
truth = rng.choice(3, 1200, p=[0.3, 0.55, 0.15])
X = rng.standard_normal((1200, 2)) + np.array([[1.8, 0.0], [0.0, 0.0], [1.5, 1.8]])[truth]
costs = np.array([[0.0, 4.0, 2.0], [1.0, 0.0, 1.0], [3.0, 20.0, 0.0]])  # [true, said]

figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for ax, matrix in zip(axes, (None, costs), strict=True):
    model = MulticlassSVC(C=0.1, cost_matrix=matrix, random_state=0)
    model.fit(X[:800], names[truth[:800]])
    said = np.searchsorted(names, model.predict(X[800:]))
    DecisionRegionDisplay.from_estimator(model, X[800:], names[truth[800:]], ax=ax)
    mean = costs[truth[800:], said].mean()
    kind = "every mistake costs the same" if matrix is None else "with its costs"
    ax.set_title(f"{kind}: mean cost {mean:.2f}, {(said == truth[800:]).mean():.0%} right")
plt.show()
