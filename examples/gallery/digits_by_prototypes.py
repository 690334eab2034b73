"""
Ten digits as thirty small images
=================================

With several prototypes per class a linear model learns different ways to write the same digit.
The whole model is the picture: blue pixels speak for a prototype, red ones against it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import MultiPrototypeSVC
from polymargin.plots import PrototypeImagesDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
model = MultiPrototypeSVC(3, C=0.3, random_state=0).fit(X_train, y_train)
PrototypeImagesDisplay.from_estimator(model)
plt.show()

# %%
print(f"right on test images: {model.score(X_test, y_test):.1%}")
print(f"numbers in the model: {model.prototypes_.size + model.intercept_.size}")
print(f"certified gap:        {model.certificate_.relative_gap:.1e}")
