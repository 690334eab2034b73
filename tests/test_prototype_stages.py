"""Stages around a fit of prototypes: parameters left open, the smooth finish, a teacher."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from polymargin import AutoSVC, MultiPrototypeSVC
from polymargin.estimators.prototype_choice import MOST_FITS
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


def test_the_strength_is_chosen_on_training_rows():
    model = MultiPrototypeSVC(1, C=1.0, finish="auto", random_state=0).fit(IRIS, KIND)
    record = model.finish_
    assert len(record["tried"]) == len(record["errors"]) == 5
    assert record["jitter"] == record["tried"][int(np.argmin(record["errors"]))]


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"finish": "strong"},
        {"finish": -1.0},
        {"finish": True},
        {"teacher": "me"},
        {"finish": 0.1, "kernel": "rbf"},
        {"finish": 0.1, "probabilities": "temperature"},
    ],
)
def test_refusals(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MultiPrototypeSVC(**wrong).fit(IRIS, KIND)


# -- parameters left open ------------------------------------------------------------------------


def test_open_parameters_are_chosen_in_few_fits():
    model = MultiPrototypeSVC("auto", C="auto", metric="auto", random_state=0)
    model.fit(X[:300], Y[:300])
    choice = model.choice_
    assert choice["n_fits"] <= MOST_FITS + 1 == 10
    assert len(choice["errors"]) == choice["n_fits"] - 1
    assert choice["metric"] in ("euclidean", "learned")
    assert (model.n_prototypes, model.C, model.metric) == ("auto", "auto", "auto")
    assert model.score(X[300:], Y[300:]) > 0.85
    assert model.certificate_.relative_gap <= 1e-3
    best = int(np.argmin(choice["errors"]))
    assert choice["C"] == choice["tried_C"][best]


def test_only_what_is_open_is_chosen():
    model = MultiPrototypeSVC(2, C="auto", random_state=0).fit(IRIS, KIND)
    assert set(model.choice_) >= {"C", "n_fits"}
    assert "metric" not in model.choice_
    assert set(model.choice_["tried_n_prototypes"]) == {6}
    few = MultiPrototypeSVC("auto", C="auto", random_state=0).fit(
        IRIS[[0, 60, 120]], KIND[[0, 60, 120]]
    )
    assert few.choice_["n_fits"] == 1


def test_auto_fits_into_a_size():
    model = AutoSVC(fit_into=200, random_state=0).fit(IRIS, KIND)
    assert model.best_estimator_.model_bytes_ <= 200
    assert model.score(IRIS, KIND) > 0.93
    assert model.tried_["verdict"][0] == "chosen"
    assert "int4" in model.table()
    with pytest.raises(ValueError, match="objective"):
        AutoSVC(fit_into=200, objective="log_loss").fit(IRIS, KIND)
