"""The multi-prototype machine on shards and on rows on disk: draws are local, sums are global."""

import numpy as np
import pytest

from polymargin import MACHINES, Annealing, MultiPrototypeSVC, load, open_rows, save
from polymargin.estimators.prototype_parts import first_centres, sample_of_classes
from polymargin.problem.annealing import PRESETS
from polymargin.solvers.shards.leader import ShardsLostError, total
from polymargin.solvers.shards.local import LocalTeam
from polymargin.solvers.shards.prototype_rounds import PrototypeRounds
from polymargin.solvers.shards.prototype_shard import PrototypeShard, PrototypeSpec

C, Q, COUNT = 0.1, 3, 2


def data(n=240, seed=0):
    """Three classes of two groups each: no linear machine separates them."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 6, n)
    angle = np.pi / 3 * group
    X = 4 * np.c_[np.cos(angle), np.sin(angle)] + 0.7 * random.normal(size=(n, 2))
    return X, group % Q


def spec_of():
    return PrototypeSpec(
        MACHINES["cs"], 1.0, C, np.arange(Q), np.ones(Q), 2, np.full(Q, COUNT, dtype=np.int64)
    )


def team_of(X, y, n_shards):
    spec = spec_of()
    parts = np.array_split(np.arange(len(y)), n_shards)
    return LocalTeam([PrototypeShard(spec.problem(X[p], y[p]), k) for k, p in enumerate(parts)])


def rounds_of(team, schedule=PRESETS["default"]):
    spec = spec_of()
    schedule = None if schedule is None else schedule.schedule(C)
    return PrototypeRounds(team, spec.shape, 1e-3, schedule=schedule, first=spec.first)


def begin(team, X, y, seed=0):
    model = MultiPrototypeSVC(COUNT, C=C)
    centres, offset = first_centres(model, spec_of(), [sample_of_classes(X, y, 500, 0)], seed)
    team.each("begin", centres, offset, seed)


@pytest.fixture(scope="module")
def local():
    X, y = data()
    return MultiPrototypeSVC(COUNT, C=C, random_state=0).fit(X, y)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_annealing_on_shards_is_as_good(local, n_shards):
    X, y = data()
    team = team_of(X, y, n_shards)
    begin(team, X, y)
    found = rounds_of(team).train(is_static=False, has_metric=False)
    assert found.static.certificate.relative_gap <= 1e-3
    assert found.energy <= local.energy_ * 1.03
    assert found.is_stationary
    # the sums of the shards are those of all rows
    W = total(team.prototypes())
    own = np.concatenate([shard.own for shard in team.shards])
    scores = X @ W.weights.T + W.constant
    mine = np.repeat(np.arange(Q), COUNT)[None, :] == y[:, None]
    rival = np.where(mine, -np.inf, scores).max(axis=1)
    slack = np.maximum(0, 1 + rival - scores[np.arange(len(y)), own])
    primal = 0.5 * (W.weights**2).sum() + 0.5 * (W.constant**2).sum() + C * slack.sum()
    assert found.static.certificate.primal == pytest.approx(primal, rel=1e-6)


def test_a_draw_keeps_the_dual_point_feasible():
    X, y = data(seed=1)
    team = team_of(X, y, 2)
    begin(team, X, y)
    rounds = rounds_of(team)
    rounds.descend(5)
    before = rounds.model
    assert rounds.draw(100.0) > 0
    assert np.allclose(rounds.model.weights, total(team.prototypes()).weights)
    assert not np.allclose(rounds.model.weights, before.weights)
    for shard in team.shards:
        tau = shard.variables
        rows = np.arange(len(tau))
        own = tau[rows, shard.own]
        assert (own >= 0).all()
        assert (own <= C * (1 + 1e-9)).all()
        assert np.allclose(tau.sum(axis=1), 0, atol=1e-12)


def test_a_shard_that_is_lost_while_drawing_costs_time_only(local):
    X, y = data()
    spec = spec_of()

    class Losing(LocalTeam):
        calls = 0

        def each(self, verb, *arguments):
            self.calls += verb == "reassign"
            if self.calls in (5, 30):
                self.calls += 1
                raise ShardsLostError([1])
            return super().each(verb, *arguments)

        def rebuild(self, shards):
            for k in shards:
                part = np.array_split(np.arange(len(y)), 3)[k]
                self.shards[k] = PrototypeShard(spec.problem(X[part], y[part]), k)

    team = Losing(team_of(X, y, 3).shards)
    begin(team, X, y)
    found = rounds_of(team).train(is_static=False, has_metric=False)
    assert found.static.certificate.relative_gap <= 1e-3
    assert found.energy <= local.energy_ * 1.05


@pytest.fixture
def rows(tmp_path):
    X, y = data()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.array(["a", "b", "c"])[y])
    with open_rows(tmp_path / "X.npy", tmp_path / "y.npy", memory=12_000, dtype=float) as found:
        assert found.n_blocks == 3
        yield found


SHORT = Annealing(cooling=0.4)
ON_DISK = {
    "annealed": {"annealing": SHORT},
    "greedy": {"assignment": "greedy"},
    "metric": {"annealing": SHORT, "metric": "learned"},
}


@pytest.mark.parametrize("options", ON_DISK.values(), ids=ON_DISK)
def test_rows_on_disk(rows, options, tmp_path):
    X, y = data()
    names = np.array(["a", "b", "c"])[y]
    model = MultiPrototypeSVC(COUNT, C=C, random_state=0, **options).fit(rows)
    whole = MultiPrototypeSVC(COUNT, C=C, random_state=0, **options).fit(X, names)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.energy_ <= whole.energy_ * 1.1
    assert model.score(rows) >= whole.score(X, names) - 0.02
    assert np.array_equal(model.predict(rows), model.predict(X))
    again = MultiPrototypeSVC(COUNT, C=C, random_state=0, **options).fit(rows)
    assert np.array_equal(again.prototypes_, model.prototypes_)
    with pytest.raises(AttributeError, match="parts of the data"):
        _ = model.dual_coef_
    save(model, tmp_path / "model.pm")
    assert np.array_equal(load(tmp_path / "model.pm").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_restarts": 3}, "n_restarts"),
        ({"kernel": "rbf"}, "kernel='linear'"),
        ({"init": np.zeros(240, dtype=int)}, "init"),
        ({"probabilities": "temperature"}, "probabilities"),
    ],
)
def test_refusals(rows, options, message):
    with pytest.raises(ValueError, match=message):
        MultiPrototypeSVC(COUNT, C=C, **options).fit(rows)


def test_constructors_on_a_cluster_are_those_of_one_process():
    pytest.importorskip("distributed")
    import inspect

    from polymargin import MulticlassSVC
    from polymargin.dask import DaskMulticlassSVC, DaskMultiPrototypeSVC

    pairs = ((MulticlassSVC, DaskMulticlassSVC), (MultiPrototypeSVC, DaskMultiPrototypeSVC))
    for local, cluster in pairs:
        own, other = (inspect.signature(one).parameters for one in (local, cluster))
        assert list(other) == [*own, "client", "classes", "checkpoint"]
        assert all(own[name].default == other[name].default for name in own)
