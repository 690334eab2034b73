"""``MultiPrototypeSVC`` trained on parts of the data: rows on disk, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.from_parts import (
    check_parts,
    class_factors,
    rounds_history,
    warn_if_unfinished,
)
from polymargin.estimators.row_training import RowWatch, class_mass
from polymargin.exceptions import shown
from polymargin.problem.first_assignment import count_prototypes, row_keys
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.solvers.run import Run, deferred_interrupt, uninterrupted
from polymargin.solvers.shards.leader import Round, Team
from polymargin.solvers.shards.prototype_rounds import PrototypeResult, PrototypeRounds
from polymargin.solvers.shards.prototype_shard import PrototypeSpec
from polymargin.solvers.shards.stored_team import StoredTeam

__all__ = [
    "first_centres",
    "fit_prototype_rows",
    "prototype_spec",
    "sample_of_classes",
    "sample_size",
    "store_prototypes",
    "train_prototypes",
]

_SAMPLE_ROWS = 5000  # of every class for k-means, as many as in memory
_KMEANS_PASSES = 20

Sample = tuple[Any, np.ndarray]


def sample_size(n_parts: int) -> int:
    """Rows of every class that each part contributes to the first assignment."""
    return max(20, -(-_SAMPLE_ROWS // n_parts))


def sample_of_classes(X: Any, y: np.ndarray, count: int, seed: int) -> Sample:
    """At most ``count`` random rows of every label of a part, and their labels."""
    random = np.random.default_rng(seed)
    some = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        if len(members) > count:
            members = np.sort(random.choice(members, count, replace=False))
        some.append(members)
    rows = np.concatenate(some) if some else np.empty(0, dtype=np.int64)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    return X[rows], y[rows]


def fit_prototype_rows(estimator: Any, rows: RowStore) -> None:
    """Train on all rows, block after block."""
    _check(estimator)
    seed = estimator._seed()
    count = sample_size(rows.n_blocks)
    samples = [sample_of_classes(*rows.load(k), count, seed + k) for k in range(rows.n_blocks)]
    mass = class_mass(estimator, rows)
    spec = prototype_spec(estimator, rows.classes, mass, rows.n_features, samples)
    run = estimator._run((), seed=seed)
    team = StoredTeam(rows, spec, seed, run.why_end)
    watch = RowWatch(estimator, rows, run)

    def see(one: Round) -> bool:
        watch.visits += rows.n_blocks - 1  # a round visits every block
        return watch(one)

    result = train_prototypes(estimator, team, spec, run, samples, rows.n_rows, see)
    with uninterrupted():
        store_prototypes(estimator, spec, result, rows.n_rows)
    warn_if_unfinished(result.static, float(estimator.tol))
    if result.static.status == "interrupted":
        raise KeyboardInterrupt


def _check(estimator: Any) -> None:
    """Refuse parameters that need all rows at once."""
    if estimator._has_open_choice:
        raise ValueError(
            "n_prototypes, C and metric cannot be 'auto' for data in parts; give them."
        )
    for name in ("fit_into", "finish", "teacher", "cost_matrix"):
        if getattr(estimator, name) is not None:
            raise ValueError(f"{name} needs all rows in memory; leave it out for data in parts.")
    estimator._check_parameters()
    check_parts(estimator)
    estimator._forget_stages()


def prototype_spec(
    estimator: Any,
    classes: Any,
    mass: Mapping[Any, float],
    n_features: int,
    samples: Sequence[Sample],
) -> PrototypeSpec:
    """The problem that all parts share; what cannot be trained in parts is refused by name."""
    _check(estimator)
    if estimator.n_restarts != 1:
        raise ValueError("n_restarts must be 1 for data in parts; fit with other seeds instead.")
    init = estimator.init
    if not isinstance(init, str) and np.ndim(init) != 2:
        raise ValueError(
            "init: data in parts take 'auto', 'kmeans', 'random' or an array of prototypes, not a "
            "number per example."
        )
    classes = np.asarray(classes)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class."
        )
    kind = estimator._intercept_kind(MACHINES["cs"])
    offset = float(estimator.intercept_scaling) ** 2 if kind == "penalized" else 0.0
    factor = class_factors(estimator.class_weight, classes, mass)
    present = np.array(
        [len(np.unique(row_keys(_rows_of(samples, label)))) for label in classes.tolist()]
    )
    counts = count_prototypes(estimator.n_prototypes, classes, present)
    return PrototypeSpec(
        MACHINES["cs"], offset, float(estimator.C), classes, factor, n_features, counts
    )


def _rows_of(samples: Sequence[Sample], label: Any) -> Any:
    rows = [X[y == label] for X, y in samples if (y == label).any()]
    if not rows:
        raise ValueError(f"classes: no example has the label {label!r}; leave it out.")
    if sp.issparse(rows[0]):
        return sp.vstack(rows, "csr")
    return np.concatenate([np.asarray(one) for one in rows])


def first_centres(
    estimator: Any, spec: PrototypeSpec, samples: Sequence[Sample], seed: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Centres and offsets of the first assignment (largest ``X centres' + offset``); None: random.

    k-means runs on a sample of every class, pooled from all parts.
    """
    init = estimator.init
    if not isinstance(init, str):
        given = np.asarray(init, dtype=np.float64)
        if given.shape != spec.shape or not np.isfinite(given).all():
            raise ValueError(
                f"init: an array of prototypes must be finite and have shape {spec.shape} here, "
                f"got {given.shape}."
            )
        return given, np.zeros(spec.shape[0])
    schedule = estimator._check_parameters()
    if init == "random" or (init == "auto" and schedule is not None and schedule.zeroing):
        return None, None
    if init not in ("auto", "kmeans"):
        raise ValueError(f"init must be 'auto', 'kmeans', 'random' or an array, got {shown(init)}.")
    centres = np.zeros(spec.shape)
    for c, label in enumerate(spec.classes.tolist()):
        rows = _rows_of(samples, label)
        q = int(spec.counts[c])
        means = KMeans(q, n_init=1, max_iter=_KMEANS_PASSES, random_state=seed + c)
        centres[spec.first[c] : spec.first[c + 1]] = means.fit(rows).cluster_centers_
    return centres, -0.5 * (centres**2).sum(axis=1)


def train_prototypes(
    estimator: Any,
    team: Team,
    spec: PrototypeSpec,
    run: Run,
    samples: Sequence[Sample],
    n_rows: int,
    watch: Callable[[Round], bool] | None,
) -> PrototypeResult:
    """First assignment, annealing or greedy rounds, the certified static problem."""
    is_resumed = bool(getattr(team, "is_resumed", False))
    rounds = PrototypeRounds(
        team,
        spec.shape,
        run.stop.tol,
        run.stop.max_iter,
        why_stop=run.why_end,
        watch=watch,
        schedule=None if is_resumed else estimator._check_parameters(),
        first=spec.first,
    )
    rounds.n_rows = n_rows
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        centres, offset = first_centres(estimator, spec, samples, run.seed)
        rounds.surviving(lambda: team.each("begin", centres, offset, run.seed))
        if is_resumed:
            rounds.refresh()
        return rounds.train(estimator.assignment == "static", estimator.metric == "learned")


def store_prototypes(
    estimator: Any, spec: PrototypeSpec, result: PrototypeResult, n_rows: int
) -> None:
    """Fitted attributes of a model whose dual variables stayed with the parts of the data."""
    static = result.static
    for name in (
        "support_",
        "support_vectors_",
        "dual_coef_",
        "assignment_",
        "metric_",
        "_training",
    ):
        estimator.__dict__.pop(name, None)
    W = static.model.weights
    estimator.prototypes_ = W if result.metric is None else result.metric.on_features(W)
    if result.metric is not None:
        estimator.metric_ = result.metric.matrix
    estimator.classes_ = spec.classes
    estimator.intercept_ = np.sqrt(spec.offset) * static.model.constant
    estimator._prototype_class = spec.prototype_class
    estimator.prototype_classes_ = spec.classes[spec.prototype_class]
    estimator.alive_, estimator.energy_ = result.alive, float(result.energy)
    estimator.stationary_ = bool(result.is_stationary)
    estimator.certificate_ = static.certificate
    estimator.n_support_ = static.n_support
    estimator.status_ = static.status
    estimator.n_iter_ = max(1, len(static.rounds))
    estimator.n_features_in_ = spec.n_features
    estimator.history_ = rounds_history(static.rounds)
    draws = result.draws
    estimator.draws_ = {
        name: np.array([getattr(one, name) for one in draws])
        for name in ("temperature", "energy", "changed", "round")
    }
    estimator._kernel = Kernel("linear", 1.0, 3.0, 0.0, spec.offset, None)
    estimator._n_train = n_rows
