"""
How far is another label?
=========================

Around every row there is a ball in which the label cannot change, and on its surface the
nearest row that gets another label. For linear and prototype models both are computed exactly.
"""

import matplotlib.pyplot as plt
from matplotlib.patches import Circle
from sklearn.datasets import load_iris

from polymargin import MultiPrototypeSVC, certified_radius, counterfactual
from polymargin.plots import DecisionRegionDisplay

X, y = load_iris(return_X_y=True)
X = X[:, 2:]  # length and width of the petals
model = MultiPrototypeSVC(2, C=10, random_state=0).fit(X, y)
rows = X[[24, 60, 76, 110, 117]]
radius = certified_radius(model, rows).radius
change = counterfactual(model, rows)

display = DecisionRegionDisplay.from_estimator(model, X, y)
ax = display.ax_
for row, r, there in zip(rows, radius, change.rows, strict=True):
    ax.add_patch(Circle(row, r, fill=False, color="black"))
    ax.plot(*zip(row, there, strict=True), color="black", marker="o", markevery=[0])
ax.set(
    xlabel="petal length [cm]", ylabel="petal width [cm]", title="certified radii", aspect="equal"
)
plt.show()

# %%
for row, there, label, target in zip(rows, change.rows, change.label, change.target, strict=True):
    print(f"{row} is {label}; at {there.round(2)} it would be {target}")
