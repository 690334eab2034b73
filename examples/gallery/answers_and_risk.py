"""
Fewer answers, fewer errors
===========================

A model that may say "I do not know" makes fewer errors. The curve shows what each share of
answers costs; ``margin_for_risk`` reads the margin for a risk of your choice off it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import MulticlassSVC, MultiPrototypeSVC, risk_coverage

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, train_size=400, random_state=0)
models = {
    "linear": MulticlassSVC(C=0.3, random_state=0),
    "four prototypes per class": MultiPrototypeSVC(4, C=0.3, random_state=0),
    "RBF kernel": MulticlassSVC(kernel="rbf", gamma=0.5, C=3, random_state=0),
}

figure, ax = plt.subplots(layout="constrained")
for name, model in models.items():
    curve = risk_coverage(model.fit(X_train, y_train), X_test, y_test)
    ax.step(100 * curve.coverage, 100 * curve.risk, where="post", label=name)
    print(f"{name}: 1 % wrong among the answers at a lead of {curve.margin_for_risk(0.01):.2f}")
ax.set(xlabel="examples answered [%]", ylabel="wrong among the answers [%]")
ax.legend()
plt.show()

# %%
# One curve in one line: ``polymargin.plots.RiskCoverageDisplay.from_estimator(model, X_test,
# y_test)``.
