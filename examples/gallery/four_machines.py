"""
Four machines on three overlapping clouds
=========================================

The machines differ in what they charge for, so their borders, their support vectors and the
room that they leave to the class in the middle differ, too.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from polymargin import MulticlassSVC
from polymargin.plots import DecisionRegionDisplay

centers = [[-2.2, -1.0], [2.2, -1.0], [0.0, 0.7]]
X, y = make_blobs(90, centers=centers, cluster_std=0.9, random_state=3)

figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
for ax, machine in zip(axes.flat, ("cs", "ww", "llw", "msvm2"), strict=True):
    model = MulticlassSVC(machine, intercept="free", C=1.0).fit(X, y)
    DecisionRegionDisplay.from_estimator(model, X, y, ax=ax)
    wrong = (model.predict(X) != y).mean()
    ax.set_title(f"{machine}: {len(model.support_)} support vectors, {wrong:.0%} wrong")
plt.show()

# %%
# Crammer-Singer (``cs``) and Weston-Watkins (``ww``) compare the score of the own class with
# those of its rivals. Lee-Lin-Wahba (``llw``) and M-SVM² (``msvm2``) ask every wrong score to
# stay below a level, which a linear score cannot do on both sides of a cloud: the third class
# loses ground. With a kernel this weakness is gone; :doc:`/machines` compares the four in
# figures.
