"""``DaskMulticlassSVC``: a linear machine on dask arrays and data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from distributed import Client

from polymargin.dask.cluster_fit import (
    ClusterTrained,
    count_shards,
    look,
    open_checkpoint,
    partitions,
)
from polymargin.dask.dask_team import DaskTeam
from polymargin.estimators.from_parts import linear_spec, store_parts, warn_if_unfinished
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.problem.machines import Machine
from polymargin.solvers.run import deferred_interrupt
from polymargin.solvers.shards.leader import Rounds

__all__ = ["DaskMulticlassSVC"]


class DaskMulticlassSVC(ClusterTrained, MulticlassSVC):
    """A linear all-in-one machine trained on the workers of a Dask cluster.

    Rows and dual variables stay on their workers; a round sends the prototypes to every shard and
    brings their changes back, which one exact line search joins (20.3).  The certificate is that of
    ``MulticlassSVC``: primal and dual value are sums over the shards.

    Parameters
    ----------
    machine, C, intercept, intercept_scaling, tol, max_iter, max_time, class_weight, random_state, \
verbose
        As for ``MulticlassSVC``; ``max_iter`` counts rounds.  ``kernel`` must be "linear", the
        intercept "none" or "penalized", C finite.
    client : distributed.Client or None
        None: the client of the moment (``distributed.get_client``).
    classes : array-like or None
        All labels, if known; otherwise one pass over y finds them.
    checkpoint : path or None
        A folder that leader and workers see.  Dual variables are written there every few rounds;
        a later fit of the same data and parameters goes on from them.

    Attributes
    ----------
    classes_, coef_, intercept_, certificate_, status_, n_iter_, n_features_in_
        As of ``MulticlassSVC``.
    n_support_ : int
        Examples with weight.
    history_ : dict
        Per round: primal, dual, relative_gap, theta, sigma, steps, ``bytes_sent`` so far.

    Examples
    --------
    >>> from distributed import Client, LocalCluster
    >>> client = Client(LocalCluster(n_workers=2, threads_per_worker=1))  # doctest: +SKIP
    >>> model = DaskMulticlassSVC(C=0.1, intercept="penalized").fit(X, y)  # doctest: +SKIP
    >>> model.to_local().predict(rows)  # doctest: +SKIP
    """

    _local_kind = MulticlassSVC

    def __init__(
        self,
        machine: str | Machine = "cs",
        C: float | str = 1.0,
        kernel: str = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        intercept: str = "auto",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        solver: str = "auto",
        cache_mb: float = 1000,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        probabilities: str | None = None,
        calibration_folds: int | None = None,
        landmarks: int | float | str | None = None,
        kernel_weights: str | None = None,
        cost_matrix: Any = None,
        client: Client | None = None,
        classes: Any = None,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            machine=machine,
            C=C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            intercept=intercept,
            intercept_scaling=intercept_scaling,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            solver=solver,
            cache_mb=cache_mb,
            class_weight=class_weight,
            warm_start=warm_start,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            probabilities=probabilities,
            calibration_folds=calibration_folds,
            landmarks=landmarks,
            kernel_weights=kernel_weights,
            cost_matrix=cost_matrix,
        )
        self.client = client
        self.classes = classes
        self.checkpoint = checkpoint

    # -- fit ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DaskMulticlassSVC:
        """Train on dask arrays (dense or CSR chunks) or data frames.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features), or RowStore
            A ``RowStore`` has its labels; its folder must be one that all workers see.
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or None
            Partitioned as X and y are.
        """
        client = self._client()
        parts = partitions(X, y, sample_weight)
        mass, n_features = look(client, parts)
        classes = np.unique(list(mass)) if self.classes is None else np.unique(self.classes)
        spec = linear_spec(self, classes, mass, n_features)
        run = self._run(())
        folder = open_checkpoint(self.checkpoint, spec, len(parts))
        n_shards = count_shards(client, folder, len(parts))
        groups = [list(group) for group in np.array_split(np.array(parts, dtype=object), n_shards)]
        team = DaskTeam(client, spec, groups, run.seed, folder)
        rounds = Rounds(
            team,
            spec.shape,
            run.stop.tol,
            run.stop.max_iter,
            why_stop=run.why_end,
            watch=lambda one: self._watch(team, one, rounds),
        )
        with deferred_interrupt(run.clock), team:
            team.start()
            result = rounds.run(warm=team.is_resumed)
        store_parts(self, spec, result, team.n_rows)
        self.history_["bytes_sent"] = team.sent_per_round(len(self.history_["round"]))
        warn_if_unfinished(result, float(self.tol))
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return self
