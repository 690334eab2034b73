"""How assignments are found: schedules, draws, restoration."""

import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from prototype_reference import slacks
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from polymargin import Annealing, MultiPrototypeSVC
from polymargin.compiled.fields import KernelField, dense_field
from polymargin.compiled.pattern_descent import Duals
from polymargin.compiled.reassignment import pulls, reassign, restore
from polymargin.compiled.totals import (
    BEST_LOSS,
    DRAWN_LOSS,
    MOVED,
    OWN_LOSS,
    OWN_WEIGHT,
    empty_totals,
)
from polymargin.problem.annealing import PRESETS, find_annealing

PROTOTYPE_CLASS = np.array([0, 0, 0, 1, 2, 2])
FIRST = np.array([0, 3, 4, 6])


@pytest.fixture(scope="module")
def data():
    return make_classification(
        150, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0
    )


# -- schedules -------------------------------------------------------------------------------------


def test_defaults():
    assert Annealing().get_params() == {
        "initial_temperature": 0.5, "cooling": 0.05, "final_temperature": None, "sweeps": 20,
        "restoration": "transfer", "units": "C", "balance": 1.0,
    }  # fmt: skip


@settings(max_examples=80)
@given(
    first=st.floats(1e-3, 1e3),
    cooling=st.floats(0.01, 0.99),
    last=st.one_of(st.none(), st.floats(1e-3, 1e3)),
    units=st.sampled_from(["C", "absolute"]),
    C=st.floats(1e-4, 1e4),
)
def test_temperatures_fall_by_one_factor(first, cooling, last, units, C):
    unit = 1.0 if units == "C" else 1.0 / C
    found = Annealing(first, cooling, last, units=units).temperatures(C)
    assert found[0] == pytest.approx(first * unit)  # there always is a draw
    np.testing.assert_allclose(found[1:], found[:-1] * (1 - cooling), rtol=1e-9)
    floor = 0.01 if last is None else last * unit
    if len(found) > 1:
        assert found[-1] >= floor * (1 - 1e-6)
    assert found[-1] * (1 - cooling) <= max(floor * (1 + 1e-6), first * unit)


def test_temperatures_of_the_presets():
    assert set(PRESETS) == {"default", "thorough", "paper"}
    paper = find_annealing("paper")
    assert (paper.initial_temperature, paper.cooling) == (10.0, 0.05)
    assert (paper.restoration, paper.units, paper.sweeps) == ("zeroing", "absolute", "descent")
    assert paper.balance == find_annealing("thorough").balance == 0.0
    for C in [0.01, 1.0, 100.0]:
        assert paper.temperatures(C)[0] == pytest.approx(10.0 / C)
        for name in ["default", "thorough"]:
            np.testing.assert_array_equal(
                find_annealing(name).temperatures(C), find_annealing(name).temperatures(1.0)
            )
    schedule = paper.schedule(2.0)
    assert schedule.zeroing
    assert schedule.sweeps == 0
    assert find_annealing("thorough").schedule(1.0).sweeps >= 1
    assert not find_annealing("thorough").schedule(1.0).zeroing


def test_a_schedule_always_ends():
    assert len(Annealing(1e300, 1e-9, 1e-300).temperatures(1.0)) <= 100_000
    assert len(Annealing(0.1, 0.5, 3.0).temperatures(1.0)) == 1


def test_a_schedule_does_not_disturb_a_hard_margin():
    """A static assignment draws nothing, whatever the schedule that goes unused."""
    X, y = np.array([[1.0, 0], [-1, 0], [0, 1]]), [0, 1, 2]
    for annealing in [*PRESETS, Annealing(units="absolute", final_temperature=0.1)]:
        model = MultiPrototypeSVC(1, C=np.inf, assignment="static", annealing=annealing)
        assert model.fit(X, y).status_ == "converged"


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"initial_temperature": value}, "initial_temperature")
        for value in [0, -1.0, np.inf, np.nan, "10", None, True]
    ]
    + [({"cooling": value}, "cooling") for value in [0, 1, 1.5, -0.1, np.nan, "slow", None]]
    + [({"final_temperature": value}, "final_temperature") for value in [0, -1, np.inf, "0"]]
    + [({"sweeps": value}, "sweeps") for value in [0, -1, 1.5, True, "ascent", None]]
    + [({"restoration": value}, "restoration") for value in ["zero", None, 1]]
    + [({"balance": value}, "balance") for value in [-0.1, np.inf, np.nan, None, True, "a"]]
    + [({"units": value}, "units") for value in ["c", "kelvin", None]],
)
def test_refused_schedules(data, parameters, name):
    with pytest.raises(ValueError, match=f"annealing: {name} must be"):
        MultiPrototypeSVC(2, annealing=Annealing(**parameters)).fit(*data)


@pytest.mark.parametrize("annealing", ["fast", None, 3, Annealing])
def test_refused_annealing(data, annealing):
    with pytest.raises(ValueError, match="annealing must be one of"):
        MultiPrototypeSVC(2, annealing=annealing).fit(*data)


def test_an_object_equals_its_preset(data):
    X, y = data
    for name, preset in PRESETS.items():
        by_name = MultiPrototypeSVC(2, annealing=name, random_state=0).fit(X, y)
        by_object = MultiPrototypeSVC(2, annealing=clone(preset), random_state=0).fit(X, y)
        np.testing.assert_array_equal(by_name.prototypes_, by_object.prototypes_)


def test_parameters_of_the_schedule():
    model = MultiPrototypeSVC(annealing=Annealing())
    assert model.get_params()["annealing__cooling"] == 0.05
    model.set_params(annealing__cooling=0.2, annealing__units="absolute")
    assert model.annealing.cooling == 0.2
    copied = clone(model)
    assert copied.annealing is not model.annealing
    assert copied.annealing.get_params() == model.annealing.get_params()
    assert repr(Annealing(cooling=0.2)) == "Annealing(cooling=0.2)"
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(annealing__heat=1)


def test_presets_are_not_changed_by_a_fit(data):
    before = {name: preset.get_params() for name, preset in PRESETS.items()}
    for name in PRESETS:
        MultiPrototypeSVC(2, annealing=name).fit(*data)
    assert {name: preset.get_params() for name, preset in PRESETS.items()} == before


def test_search_over_schedules(data):
    X, y = data
    objects = [Annealing(cooling=0.5), Annealing(0.1, 0.5, restoration="zeroing"), "paper"]
    search = GridSearchCV(
        MultiPrototypeSVC(2, random_state=0), {"annealing": objects, "C": [0.1, 1.0]}, cv=2
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    nested = GridSearchCV(
        MultiPrototypeSVC(2, annealing=Annealing(), random_state=0),
        {"annealing__cooling": [0.5, 0.9]}, cv=2,
    ).fit(X, y)  # fmt: skip
    assert nested.best_estimator_.annealing.cooling in (0.5, 0.9)


# -- one reassignment ------------------------------------------------------------------------------


def random_duals(n, seed, tau=True):
    """Patterns of three classes with 3, 1 and 2 prototypes, a feasible dual point."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=n)
    own = np.array([rng.integers(FIRST[c], FIRST[c + 1]) for c in label])
    cap = rng.uniform(0.5, 2.0, size=n)
    values = np.zeros((n, 6))
    for i in range(n if tau else 0):
        others = np.flatnonzero(label[i] != PROTOTYPE_CLASS)
        part = rng.uniform(size=len(others)) * (rng.random(len(others)) < 0.6)
        if part.sum() > 0 and rng.random() < 0.8:
            values[i, others] = -part / part.sum() * rng.uniform(0, cap[i])
            values[i, own[i]] = -values[i].sum()
    active = np.zeros((n, 6), dtype=np.int16)
    n_active = np.zeros(n, dtype=np.int32)
    for i in range(n):
        support = np.flatnonzero(values[i])
        if len(support):
            order = np.r_[own[i], support[support != own[i]]]
            active[i, : len(order)] = order
            n_active[i] = len(order)
    ones = np.ones(n)
    return Duals(own, label, PROTOTYPE_CLASS, cap, ones, ones, values, active, n_active)


def run_reassign(duals, scores, temperature, tolerance=0.0, seed=1, pull=None):
    n = len(duals.own)
    pull = np.ones(6) if pull is None else pull
    winner = np.empty(n, dtype=np.int64)
    moved = np.empty((n, 2), dtype=np.int64)
    totals = empty_totals()
    end = reassign(
        np.ascontiguousarray(scores.T), np.zeros(6), np.arange(n), duals, FIRST, temperature,
        pull, tolerance, np.array([seed], dtype=np.uint64), winner, moved, 0, totals,
    )  # fmt: skip
    return winner, moved[:end], totals


@pytest.mark.parametrize("temperature", [-1.0, 0.0, 1e-13, 0.3, 50.0])
@pytest.mark.parametrize("tolerance", [0.0, 0.5])
def test_reassign(temperature, tolerance):
    """Sums, winners and moves against (2.1) and A12 by hand."""
    duals = random_duals(80, seed=3)
    before = duals.own.copy()
    tau = duals.tau.copy()
    scores = np.random.default_rng(4).normal(size=(80, 6)) * 1.5
    xi = slacks(scores, duals.label, PROTOTYPE_CLASS)
    at = np.arange(80)
    winner, moved, totals = run_reassign(duals, scores, temperature, tolerance)
    least = xi.min(axis=1)
    np.testing.assert_allclose(xi[at, winner], least)
    tied = xi[at, before] == least
    np.testing.assert_array_equal(winner[tied], before[tied])
    assert totals[BEST_LOSS] == pytest.approx(duals.cap @ least)
    assert totals[OWN_LOSS] == pytest.approx(duals.cap @ xi[at, before])
    assert totals[DRAWN_LOSS] == pytest.approx(duals.cap @ xi[at, duals.own])
    assert totals[OWN_WEIGHT] == pytest.approx(tau[at, before].sum())
    assert totals[MOVED] == (duals.own != before).sum()
    np.testing.assert_array_equal(PROTOTYPE_CLASS[duals.own], duals.label)
    np.testing.assert_array_equal(duals.tau, tau)  # restoring is another step
    expected = [(i, before[i]) for i in at if duals.own[i] != before[i] and tau[i, before[i]] > 0]
    np.testing.assert_array_equal(moved, np.array(expected, dtype=np.int64).reshape(-1, 2))
    if temperature < 0:
        np.testing.assert_array_equal(duals.own, before)
    elif temperature < 1e-12:
        better = xi[at, before] > least + tolerance
        np.testing.assert_array_equal(duals.own, np.where(better, winner, before))
    else:
        assert totals[MOVED] > 0


@pytest.mark.parametrize("pull", [np.ones(6), np.array([0.5, 1.0, 3.0, 1.0, 1.0, 9.0])])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 20.0])
def test_draws_follow_the_law(temperature, pull):
    """(3.5) times the pull, by the frequencies of many draws."""
    n = 60_000
    label = np.zeros(n, dtype=np.int64)
    scores = np.tile([0.3, -0.2, -0.9, 0.1, 0.0, -2.0], (n, 1))
    duals = random_duals(n, seed=0, tau=False)._replace(label=label, own=label.copy())
    _, _, totals = run_reassign(duals, scores, temperature, seed=987654321987654321, pull=pull)
    xi = slacks(scores[:1], label[:1], PROTOTYPE_CLASS)[0, :3]
    law = pull[:3] * np.exp(-(xi - xi.min()) / temperature)
    law /= law.sum()
    seen = np.bincount(duals.own, minlength=3) / n
    np.testing.assert_allclose(seen, law, atol=5 * np.sqrt(0.25 / n))
    assert totals[DRAWN_LOSS] == pytest.approx(duals.cap @ xi[duals.own])
    # neighbours in the row must not be drawn alike
    same = np.mean(duals.own[1:] == duals.own[:-1])
    assert same == pytest.approx(np.sum(law**2), abs=6 * np.sqrt(0.25 / n))


def test_pulls():
    """Prototypes with few examples attract, and only shares of the own class count."""
    own = np.array([0, 0, 0, 1, 3, 4, 5])
    cap = np.full(7, 0.3)
    pull = pulls(own, cap, FIRST, 0.5)
    assert np.isfinite(pull).all()
    assert pull[2] > pull[1] > pull[0]
    assert pull[4] == pull[5] == pull[3]
    np.testing.assert_allclose(pulls(own, 7.0 * cap, FIRST, 0.5), pull, rtol=1e-12)
    np.testing.assert_allclose(
        pulls(np.r_[own, own], np.r_[cap, cap], FIRST, 0.5), pull, rtol=1e-12
    )
    np.testing.assert_allclose(pulls(own, cap, FIRST, 1.0), pull**2, rtol=1e-12)
    np.testing.assert_array_equal(pulls(own, cap, FIRST, 0.0), np.ones(6))
    none = np.zeros(0, dtype=np.int64)
    assert np.isfinite(pulls(none, none.astype(float), FIRST, 0.5)).all()


def test_draws_at_a_tiny_temperature_survive_large_slacks():
    duals = random_duals(500, seed=5)
    scores = 1e6 * np.random.default_rng(0).normal(size=(500, 6))
    xi = slacks(scores, duals.label, PROTOTYPE_CLASS)
    _, _, totals = run_reassign(duals, scores, 1e-3)
    np.testing.assert_array_equal(xi[np.arange(500), duals.own], xi.min(axis=1))
    assert totals[DRAWN_LOSS] == pytest.approx(totals[BEST_LOSS])


@pytest.mark.parametrize("zeroing", [False, True], ids=["transfer", "zeroing"])
@pytest.mark.parametrize("kind", ["dense", "kernel"])
def test_restore(zeroing, kind):
    """A13: feasible for the new assignment, and the scores are those of the new dual point."""
    n = 60
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    duals = random_duals(n, seed=7)
    tau = duals.tau.copy()
    before = duals.own.copy()
    K = X @ X.T + 2.25
    if kind == "dense":
        field = dense_field(X, tau.T @ X, 1.5 * tau.sum(axis=0), 1.5)
    else:
        slot = np.arange(n)
        slot[n // 2] = -1
        tick = np.zeros(1, dtype=np.int64)
        F, used = (K @ tau).T.copy(), np.zeros(n, np.int64)
        field = KernelField(K.copy(), slot, F, n, used, tick, np.zeros(len(F)), 0.0)
    _, moved, _ = run_reassign(duals, K @ tau, 5.0)
    assert len(moved) > 10
    end = restore(field, duals, moved, 0, len(moved), zeroing)
    if end < len(moved):  # the row that is missing, and only that
        assert kind == "kernel"
        assert moved[end, 0] == n // 2
        field.slot[n // 2] = n // 2
        end = restore(field, duals, moved, end, len(moved), zeroing)
    assert end == len(moved)
    new = duals.tau
    assert ref.infeasibility(new, duals.own, duals.cap) <= 1e-14
    mine = duals.label[:, None] == PROTOTYPE_CLASS
    mine[np.arange(n), duals.own] = False
    assert not new[mine].any()
    still = duals.own == before
    np.testing.assert_array_equal(new[still], tau[still])
    if zeroing:
        assert not new[moved[:, 0]].any()
        assert not duals.n_active[moved[:, 0]].any()
    else:
        at = np.arange(n)
        np.testing.assert_array_equal(new[at, duals.own], tau[at, before])
        others = duals.label[:, None] != PROTOTYPE_CLASS
        np.testing.assert_array_equal(new[others], tau[others])
        weighted = duals.n_active > 0
        np.testing.assert_array_equal(duals.active[weighted, 0], duals.own[weighted])
    if kind == "dense":
        np.testing.assert_allclose(field.W, new.T @ X, atol=1e-12)
        np.testing.assert_allclose(field.constant, 1.5 * new.sum(axis=0), atol=1e-12)
    else:
        np.testing.assert_allclose(field.F, (K @ new).T, atol=1e-12)
