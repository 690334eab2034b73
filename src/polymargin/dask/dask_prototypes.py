"""``DaskMultiPrototypeSVC``: several prototypes per class on dask arrays and data frames."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask
import numpy as np

from polymargin.dask.cluster_fit import ClusterTrained, gathered
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.prototype_parts import (
    prototype_spec,
    sample_of_classes,
    sample_size,
    store_prototypes,
    train_prototypes,
)

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

    See Also
    --------
    DaskMulticlassSVC : One prototype per class.
    polymargin.MultiPrototypeSVC : The same in one process.
    """

    _local_kind = MultiPrototypeSVC

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DaskMultiPrototypeSVC:
        """Train on dask arrays (dense or CSR chunks) or data frames.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features), or RowStore
            A ``RowStore`` has its labels; its folder must be one that all workers see.
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or None
            Partitioned as X and y are.

        Returns
        -------
        self
        """
        seed = self._seed()
        data = self._look(X, y, sample_weight)
        count = sample_size(len(data.parts))
        tasks = [dask.delayed(_sample)(part, count, seed + k) for k, part in enumerate(data.parts)]
        samples = [one for one in gathered(data.client, tasks) if len(one[1])]
        spec = prototype_spec(self, data.classes, data.mass, data.n_features, samples)
        run = self._run((), seed=seed)
        team = self._team(data, spec, seed)
        watch = partial(self._watch, team)
        with team:
            team.start()
            result = train_prototypes(self, team, spec, run, samples, team.n_rows, watch)
        store_prototypes(self, spec, result, team.n_rows)
        self._finish(team, result.static)
        return self


def _sample(part: tuple[Any, Any, Any], count: int, seed: int) -> tuple[Any, np.ndarray]:
    X, y, weight = part
    if weight is not None:
        kept = np.flatnonzero(np.asarray(weight).reshape(-1) > 0.0)
        X = X.to_numpy() if hasattr(X, "to_numpy") else X
        X, y = X[kept], y[kept]
    return sample_of_classes(X, y, count, seed)
