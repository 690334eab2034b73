"""``DaskMultiPrototypeSVC``: several prototypes per class on dask arrays and data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask
import numpy as np
from distributed import Client

from polymargin.dask.cluster_fit import (
    ClusterTrained,
    count_shards,
    gathered,
    look,
    open_checkpoint,
    partitions,
)
from polymargin.dask.dask_team import DaskTeam
from polymargin.estimators.from_parts import warn_if_unfinished
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.prototype_parts import (
    prototype_spec,
    sample_of_classes,
    sample_size,
    store_prototypes,
    train_prototypes,
)
from polymargin.problem.annealing import Annealing
from polymargin.solvers.shards.leader import Round

__all__ = ["DaskMultiPrototypeSVC"]


class DaskMultiPrototypeSVC(ClusterTrained, MultiPrototypeSVC):
    """The multi-prototype machine trained on the workers of a Dask cluster.

    Rows, assignments and dual variables stay on their workers, which draw for their own examples;
    energies, weights of prototypes and changes of W are sums over the shards.

    Parameters
    ----------
    n_prototypes, C, intercept, assignment, annealing, init, tol, max_iter, max_time, \
class_weight, random_state, verbose, intercept_scaling, metric
        As for ``MultiPrototypeSVC``; ``max_iter`` counts rounds, ``init`` is a word or an array of
        prototypes.  ``kernel`` must be "linear", C finite, ``n_restarts`` 1.
    client : distributed.Client or None
        None: the client of the moment (``distributed.get_client``).
    classes : array-like or None
        All labels, if known; otherwise one pass over y finds them.
    checkpoint : path or None
        A folder that leader and workers see.  Assignments and dual variables are written there
        every few rounds; a later fit of the same data and parameters takes them for its first
        assignment and, instead of annealing again, goes on with greedy rounds.

    Attributes
    ----------
    classes_, prototypes_, intercept_, prototype_classes_, alive_, energy_, stationary_, \
certificate_, status_, n_iter_, n_features_in_, metric_
        As of ``MultiPrototypeSVC``.
    n_support_ : int
        Examples with weight.
    history_ : dict
        Per round: primal, dual, relative_gap, theta, sigma, steps, ``bytes_sent`` so far.
    draws_ : dict
        Per draw: temperature, energy, changed examples, and the round that follows.
    """

    _local_kind = MultiPrototypeSVC

    def __init__(
        self,
        n_prototypes: int | Mapping[Any, int] | Any = 5,
        C: float = 1.0,
        kernel: str = "linear",
        intercept: str = "auto",
        assignment: str = "annealed",
        annealing: str | Annealing = "default",
        n_restarts: int = 1,
        init: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 100000,
        max_time: float | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        intercept_scaling: float = 1.0,
        cache_mb: float = 1000,
        solver: str = "auto",
        metric: str = "euclidean",
        probabilities: str | None = None,
        calibration_folds: int | None = None,
        fit_into: int | str | None = None,
        finish: float | str | None = None,
        teacher: Any = None,
        cost_matrix: Any = None,
        client: Client | None = None,
        classes: Any = None,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            n_prototypes=n_prototypes,
            C=C,
            kernel=kernel,
            intercept=intercept,
            assignment=assignment,
            annealing=annealing,
            n_restarts=n_restarts,
            init=init,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            class_weight=class_weight,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            intercept_scaling=intercept_scaling,
            cache_mb=cache_mb,
            solver=solver,
            metric=metric,
            probabilities=probabilities,
            calibration_folds=calibration_folds,
            fit_into=fit_into,
            finish=finish,
            teacher=teacher,
            cost_matrix=cost_matrix,
        )
        self.client = client
        self.classes = classes
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DaskMultiPrototypeSVC:
        """Train on dask arrays (dense or CSR chunks) or data frames.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features), or RowStore
            A ``RowStore`` has its labels; its folder must be one that all workers see.
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or None
            Partitioned as X and y are.
        """
        client, seed = self._client(), self._seed()
        parts = partitions(X, y, sample_weight)
        mass, n_features = look(client, parts)
        classes = np.unique(list(mass)) if self.classes is None else np.unique(self.classes)
        count = sample_size(len(parts))
        tasks = [dask.delayed(_sample)(part, count, seed + k) for k, part in enumerate(parts)]
        samples = [one for one in gathered(client, tasks) if len(one[1])]
        spec = prototype_spec(self, classes, mass, n_features, samples)
        run = self._run((), seed=seed)
        folder = open_checkpoint(self.checkpoint, spec, len(parts))
        n_shards = count_shards(client, folder, len(parts))
        groups = [list(group) for group in np.array_split(np.array(parts, dtype=object), n_shards)]
        team = DaskTeam(client, spec, groups, seed, folder)
        seen = _Seen()

        def watch(one: Round) -> bool:
            seen.rounds.append(one)
            return self._watch(team, one, seen)

        with team:
            team.start()
            result = train_prototypes(self, team, spec, run, samples, team.n_rows, watch)
        store_prototypes(self, spec, result, team.n_rows)
        self.history_["bytes_sent"] = team.sent_per_round(len(self.history_["round"]))
        warn_if_unfinished(result.static, float(self.tol))
        if result.static.status == "interrupted":
            raise KeyboardInterrupt
        return self


class _Seen:
    """The rounds so far, as the printed line and checkpoints count them."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []


def _sample(part: tuple[Any, Any, Any], count: int, seed: int) -> tuple[Any, np.ndarray]:
    X, y, weight = part
    if weight is not None:
        kept = np.flatnonzero(np.asarray(weight).reshape(-1) > 0.0)
        X = X.to_numpy() if hasattr(X, "to_numpy") else X
        X, y = X[kept], y[kept]
    return sample_of_classes(X, y, count, seed)
