"""Stages around a fit of prototypes: parameters left open, the smooth finish, a teacher."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from polymargin import AutoSVC, MultiPrototypeSVC
from polymargin.estimators.paired_validation import is_clearly_better, validation_folds
from polymargin.estimators.prototype_choice import MOST_WORK
from polymargin.solvers.smooth_finish import FinishSettings, Parts, Rounding, finish, smooth_loss

X, Y = load_digits(return_X_y=True)
X = X / 16.0
IRIS, KIND = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def plain():
    return MultiPrototypeSVC(2, C=0.1, random_state=0).fit(X[:300], Y[:300])


# -- the smooth loss -----------------------------------------------------------------------------


def toy(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 3))
    label = rng.integers(0, 3, 40)
    owner = np.array([0, 0, 1, 2, 2])
    return Parts(rng.normal(size=(5, 3)), rng.normal(size=5)), rows, label, owner


def test_the_loss_is_the_mean_over_rows_written_out():
    parts, rows, label, owner = toy()
    slow = 0.0
    for x, y in zip(rows, label, strict=True):
        e = [
            np.exp(4.0 * (w @ x + b)) for w, b in zip(parts.weights, parts.intercepts, strict=True)
        ]
        own = sum(v for v, c in zip(e, owner, strict=True) if c == y)
        slow += -np.log(own / sum(e)) / 4.0
    assert smooth_loss(parts, rows, label, owner, 4.0) == pytest.approx(slow / len(rows), rel=1e-12)


def test_the_gradient_is_that_of_the_loss():
    """One tiny step of every number against differences of the slow loss."""
    from polymargin.solvers.smooth_finish import _Stage

    parts, rows, label, owner = toy(1)
    projected = Parts(np.random.default_rng(2).normal(size=(5, 2)), parts.intercepts,
                      np.random.default_rng(3).normal(size=(2, 3)))  # fmt: skip
    for start in (parts, projected):
        target = np.eye(3, dtype=np.float32)[label]
        data = rows.astype(np.float32)
        rng = np.random.default_rng(0)
        stage = _Stage(data, target, owner, 4.0, 0.0, Rounding(), rng, None)
        slope = stage.gradient(start.astype(np.float32), np.arange(40))
        for place, array in enumerate(start.arrays()):
            for index in np.ndindex(array.shape):
                moved = [a.copy() for a in start.arrays()]
                moved[place][index] += 1e-5
                more = smooth_loss(Parts(*moved), rows, label, owner, 4.0)
                moved[place][index] -= 2e-5
                less = smooth_loss(Parts(*moved), rows, label, owner, 4.0)
                wanted = (more - less) / 2e-5
                assert slope.arrays()[place][index] == pytest.approx(wanted, abs=2e-4)


def test_jitter_along_classes_has_their_covariance():
    from polymargin.solvers.smooth_finish import _Alike, _Stage

    rng = np.random.default_rng(0)
    label = np.arange(4000) % 2
    rows = rng.normal(size=(4000, 3)) * np.where(
        label[:, None] == 0, [1.0, 0.0, 2.0], [0.0, 3.0, 1]
    )
    rows[:, 0] += 10.0 * label
    target = np.eye(2, dtype=np.float32)[label]
    stage = _Stage(
        rows.astype(np.float32), target, np.array([0, 1]), 4.0, 1.0, Rounding(), rng, None,
        _Alike(label),
    )  # fmt: skip
    noise = stage.draws(np.arange(4000))
    for c in (0, 1):
        found = np.cov(noise[label == c], rowvar=False)
        assert np.allclose(found, np.cov(rows[label == c], rowvar=False), atol=0.5)
    assert np.array_equal(noise[label == 1][:, 0], np.zeros(2000))
    assert np.array_equal(noise[label == 0][:, 1], np.zeros(2000))
    start = Parts(np.eye(2, 3), np.zeros(2))
    how = FinishSettings(jitter=0.5, epochs=3, along="classes")
    done = finish(start, rows, label, np.array([0, 1]), how)
    plain = finish(start, rows, label, np.array([0, 1]), FinishSettings(jitter=0.5, epochs=3))
    assert not np.array_equal(done.weights, plain.weights)


def test_the_stage_lowers_the_loss_and_keeps_rounded_numbers_on_their_grid(plain):
    start = Parts(plain.prototypes_, plain.intercept_)
    owner = plain._prototype_class
    settings = FinishSettings(epochs=10)
    done = finish(start, X[:300], Y[:300], owner, settings)
    before = smooth_loss(start, X[:300], Y[:300], owner, 8.0)
    assert smooth_loss(done, X[:300], Y[:300], owner, 8.0) < before

    def grid(values):
        return (np.rint(values / 0.25) * 0.25).astype(values.dtype)

    rounded = finish(start, X[:300], Y[:300], owner, settings, Rounding(grid))
    assert np.array_equal(np.rint(rounded.weights / 0.25) * 0.25, rounded.weights)
    crude = Parts(grid(start.weights), start.intercepts)
    now = smooth_loss(rounded, X[:300], Y[:300], owner, 8.0)
    assert now < smooth_loss(crude, X[:300], Y[:300], owner, 8.0)


# -- finish and teacher --------------------------------------------------------------------------


def test_a_finish_moves_prototypes_and_says_so(plain):
    model = MultiPrototypeSVC(2, C=0.1, finish=0.1, random_state=0).fit(X[:300], Y[:300])
    assert not np.allclose(model.prototypes_, plain.prototypes_)
    assert model.certificate_.primal == plain.certificate_.primal
    assert model.finish_["margin_objective_before"] == pytest.approx(plain.energy_, rel=1e-6)
    assert "none" in model.finish_["certificate"]
    assert not hasattr(model, "dual_coef_")
    assert model.score(X[300:], Y[300:]) > plain.score(X[300:], Y[300:]) - 0.02
    along = MultiPrototypeSVC(2, C=0.1, finish=("classes", 0.5), random_state=0)
    along.fit(X[:300], Y[:300])
    assert along.finish_["jitter"] == ("classes", 0.5)
    assert along.score(X[300:], Y[300:]) > plain.score(X[300:], Y[300:]) - 0.02


def test_the_strength_is_chosen_on_training_rows():
    model = MultiPrototypeSVC(1, C=1.0, finish="auto", random_state=0).fit(IRIS, KIND)
    record = model.finish_
    assert len(record["tried"]) == len(record["errors"]) == 7
    best = int(np.argmin(record["errors"]))
    assert record["jitter"] in (None, record["tried"][best])


def test_a_teacher_replaces_the_labels():
    teacher = LogisticRegression(max_iter=500).fit(X[:300], Y[:300])
    noisy = Y[:300].copy()
    noisy[::4] = (noisy[::4] + 1) % 10
    student = MultiPrototypeSVC(1, C=0.01, finish=0.0, teacher=teacher, random_state=0)
    student.fit(X[:300], noisy)
    alone = MultiPrototypeSVC(1, C=0.01, finish=0.0, random_state=0).fit(X[:300], noisy)
    agree = np.mean(student.predict(X[300:]) == teacher.predict(X[300:]))
    assert agree > np.mean(alone.predict(X[300:]) == teacher.predict(X[300:]))
    with pytest.raises(ValueError, match="teacher knows the classes"):
        student.fit(X[:200], Y[:200] % 5)


class Oracle:
    """A teacher that says ``answer`` of the labels of the digits, by looking rows up."""

    classes_ = np.arange(10)

    def __init__(self, answer):
        self.answer = {row.tobytes(): answer(k) for row, k in zip(X, Y, strict=True)}

    def predict(self, rows):
        return np.array([self.answer[row.tobytes()] for row in rows])


def test_a_teacher_is_used_only_where_validation_says_so():
    noisy = Y[:400].copy()
    noisy[::3] = np.random.default_rng(0).permutation(noisy[::3])
    settings = {"n_prototypes": 1, "C": 0.01, "random_state": 0}
    bad = MultiPrototypeSVC(**settings, teacher=Oracle(lambda k: (k + 1) % 10)).fit(X[:400], noisy)
    assert bad.finish_["target"] == "labels"
    assert "teacher" in bad.finish_["tried_targets"]
    alone = MultiPrototypeSVC(**settings, finish="auto").fit(X[:400], noisy)
    assert (bad.predict(X) == alone.predict(X)).all()
    good = MultiPrototypeSVC(**settings, teacher=Oracle(lambda k: k)).fit(X[:400], noisy)
    assert good.finish_["target"] == "teacher"
    assert good.score(X[400:], Y[400:]) > alone.score(X[400:], Y[400:])
    told = MultiPrototypeSVC(**settings, finish=0.0, teacher=Oracle(lambda k: (k + 1) % 10))
    assert told.fit(X[:400], noisy).finish_["target"] == "teacher"


@pytest.mark.parametrize(
    "wrong",
    [
        {"finish": "strong"},
        {"finish": -1.0},
        {"finish": True},
        {"finish": ("sideways", 0.3)},
        {"finish": ("classes", -0.3)},
        {"teacher": "me"},
        {"finish": 0.1, "kernel": "rbf"},
        {"finish": 0.1, "probabilities": "temperature"},
    ],
)
def test_refusals(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MultiPrototypeSVC(**wrong).fit(IRIS, KIND)


# -- parameters left open ------------------------------------------------------------------------


def test_clearly_better_is_judged_by_rows_that_changed():
    stands = np.array([True] * 10 + [False] * 90)
    mends = stands.copy()
    mends[:4] = False
    assert is_clearly_better(mends, stands, None, 2.0)  # 4 mended: 4 >= 2 sqrt(4)
    assert not is_clearly_better(mends, stands, None, 2.1)
    breaks = mends.copy()
    breaks[50:53] = True  # one error less, seven rows changed
    assert not is_clearly_better(breaks, stands, None, 1.0)
    assert is_clearly_better(breaks, stands, None, 0.3)
    assert not is_clearly_better(stands, stands, None, 0.0)
    weight = np.ones(100)
    weight[50:53] = 0.0
    assert is_clearly_better(breaks, stands, weight, 2.0)


def test_every_class_has_validation_rows():
    label = np.repeat([0, 1, 2, 3], [1, 2, 7, 90])
    folds = validation_folds(label, 3, 0)
    assert 0 not in np.concatenate(folds)  # a class of one row is always trained on
    assert sorted(np.concatenate(folds)) == list(range(1, 100))
    assert set(label[folds[0]]) == {1, 2, 3}
    for rows in folds:
        assert 29 <= np.sum(label[rows] == 3) <= 31


def test_open_parameters_are_chosen_in_few_fits():
    model = MultiPrototypeSVC("auto", C="auto", metric="auto", random_state=0)
    model.fit(X[:300], Y[:300])
    choice = model.choice_
    assert choice["work"] <= MOST_WORK + 1.0 == 10.0
    assert sum(choice["tried_folds"]) == choice["n_fits"] - 1
    assert choice["metric"] in ("euclidean", "learned")
    assert (model.n_prototypes, model.C, model.metric) == ("auto", "auto", "auto")
    assert model.certificate_.relative_gap <= 1e-3
    assert choice["C"] in choice["tried_C"]


def rings(seed):
    """Three classes on rings around the origin."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=450)
    angle = 2.0 * np.pi * rng.random(450)
    radius = kind + 1.0 + 0.1 * rng.normal(size=450)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), kind


def test_what_is_clearly_better_is_chosen():
    """Rings need many prototypes; judged by a mean, since a single fit is a matter of chance."""
    chosen, few, many = [], [], []
    for seed in range(4):
        rows, kind = rings(seed)
        model = MultiPrototypeSVC("auto", C="auto", random_state=0).fit(rows[:300], kind[:300])
        start = model.choice_["tried_C"][0]
        chosen.append(model.score(rows[300:], kind[300:]))
        for n, scores in ((2, few), (5, many)):
            given = MultiPrototypeSVC(n, C=start, random_state=0).fit(rows[:300], kind[:300])
            scores.append(given.score(rows[300:], kind[300:]))
    assert np.mean(chosen) > np.mean(few) + 0.1
    assert np.mean(chosen) > np.mean(many) - 0.02


def test_noise_gets_no_stronger_prototypes():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(300, 5))
    coin = rng.integers(2, size=300)
    calm = MultiPrototypeSVC(2, C="auto", random_state=0).fit(noise, coin)
    assert calm.choice_["C"] <= calm.choice_["tried_C"][0]


def test_the_search_knows_labels_weights_and_kernels():
    """Labels that are text, weights by label, weights of rows, a matrix of kernel values."""
    names = np.array(["setosa", "versicolor", "virginica"])[KIND]
    weights = {"setosa": 1.0, "versicolor": 2.0, "virginica": 1.0}
    model = MultiPrototypeSVC(
        {"setosa": 1, "versicolor": 2, "virginica": 2}, C="auto", class_weight=weights,
        random_state=0,
    ).fit(IRIS, names)  # fmt: skip
    assert model.score(IRIS, names) > 0.9
    half = np.arange(150) % 2 == 0
    given = MultiPrototypeSVC(2, C="auto", random_state=0)
    a = given.fit(IRIS, KIND, sample_weight=half.astype(float)).prototypes_
    assert given.score(IRIS[half], KIND[half]) > 0.9
    assert a.shape == (6, 4)
    kernel = MultiPrototypeSVC(2, C="auto", kernel="precomputed", random_state=0)
    kernel.fit(IRIS @ IRIS.T, KIND)
    assert kernel.score(IRIS @ IRIS.T, KIND) > 0.9
    with pytest.raises(ValueError, match="sample_weight"):
        given.fit(IRIS, KIND, sample_weight=np.ones(3))


def test_chosen_parameters_predict_well():
    """Rows of other writers: a C that was better by one validation error had 19 % errors."""
    chosen, default = [], []
    for seed in range(4):
        for model, scores in (
            (MultiPrototypeSVC("auto", C="auto", metric="auto"), chosen),
            (MultiPrototypeSVC(), default),
        ):
            model.set_params(random_state=seed).fit(X[:300], Y[:300])
            scores.append(model.score(X[300:], Y[300:]))
    assert np.mean(chosen) > np.mean(default) - 0.02


def test_only_what_is_open_is_chosen():
    model = MultiPrototypeSVC(2, C="auto", random_state=0).fit(IRIS, KIND)
    assert set(model.choice_) >= {"C", "n_fits"}
    assert "metric" not in model.choice_
    assert set(model.choice_["tried_n_prototypes"]) == {6}
    few = MultiPrototypeSVC("auto", C="auto", random_state=0).fit(
        IRIS[[0, 60, 120]], KIND[[0, 60, 120]]
    )
    assert few.choice_["n_fits"] == 1


def test_the_finish_is_chosen_with_the_other_open_parameters():
    """On the best machine of the search: no further one is trained for it."""
    model = MultiPrototypeSVC(2, C=0.1, metric="auto", finish="auto", random_state=0)
    model.fit(X[:300], Y[:300])
    found = model.choice_
    assert found["tried_jitter"][0] is None
    assert len(found["finish_errors"]) == 7
    best = int(np.argmin(found["finish_errors"]))
    assert found["finish"] in (None, found["tried_jitter"][best])
    assert found["finish"] == model.finish_["jitter"]
    assert sum(found["tried_folds"]) == found["n_fits"] - 1


def test_auto_fits_into_a_size():
    model = AutoSVC(fit_into=200, random_state=0).fit(IRIS, KIND)
    assert model.best_estimator_.model_bytes_ <= 200
    assert model.score(IRIS, KIND) > 0.93
    assert model.tried_["verdict"][0] == "chosen"
    assert "int4" in model.table()
    with pytest.raises(ValueError, match="objective"):
        AutoSVC(fit_into=200, objective="log_loss").fit(IRIS, KIND)
