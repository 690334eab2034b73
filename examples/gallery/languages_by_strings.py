"""
Strings instead of vectors
==========================

A kernel may compare anything. This one counts the sequences of three letters that two sentences
share, which is enough to tell three languages apart.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from polymargin import MulticlassSVC

sentences = {
    "English": "the house is old|where is the station|she reads the newspaper|what is the time|"
    "they went to the sea|the weather is nice|he has three brothers|this is the best book",
    "German": "das haus ist alt|wo ist der bahnhof|sie liest die zeitung|wie spät ist es|"
    "sie fuhren an das meer|das wetter ist schön|er hat drei brüder|das ist das beste buch",
    "Italian": "la casa è vecchia|dove è la stazione|lei legge il giornale|che ore sono|"
    "sono andati al mare|il tempo è bello|lui ha tre fratelli|questo è il libro migliore",
}
X = [text for some in sentences.values() for text in some.split("|")]
y = [language for language, some in sentences.items() for _ in some.split("|")]


def profile(text, length=3):
    """How often each sequence of letters occurs, as a vector of length 1."""
    counts = Counter(text[i : i + length] for i in range(len(text) - length + 1))
    norm = sum(n * n for n in counts.values()) ** 0.5
    return {part: n / norm for part, n in counts.items()}


def shared_letters(A, B):
    """The kernel: one value for every pair of strings."""
    A, B = [profile(a) for a in A], [profile(b) for b in B]
    return np.array([[sum(n * b.get(part, 0.0) for part, n in a.items()) for b in B] for a in A])


model = MulticlassSVC(kernel=shared_letters, C=10.0, random_state=0).fit(X, y)
new = ["the sea is old", "das buch ist schön", "la casa è bella", "the brothers read"]
scores = model.decision_function(new)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.imshow(shared_letters(X, X), cmap="viridis")
left.set(title="kernel of the training sentences", xticks=[], yticks=[4, 12, 20])
left.set_yticklabels(sentences)
image = right.imshow(scores, cmap="coolwarm", vmin=-1, vmax=1)
right.set(title="scores of new sentences", xticks=range(3), yticks=range(4))
right.set_xticklabels(model.classes_)
right.set_yticklabels(new)
figure.colorbar(image, ax=right)
plt.show()

# %%
print(dict(zip(new, model.predict(new).tolist(), strict=True)))
