"""``DaskMulticlassSVC``: a linear machine on dask arrays and data frames."""

from __future__ import annotations

from typing import Any

from polymargin.dask.cluster_fit import ClusterTrained
from polymargin.estimators.from_parts import linear_spec, store_parts
from polymargin.estimators.multiclass import MulticlassSVC
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

    See Also
    --------
    DaskMultiPrototypeSVC : Several prototypes per class.
    polymargin.MulticlassSVC : The same in one process.
    polymargin.open_rows : Rows on the disk of one machine.

    Examples
    --------
    >>> from distributed import Client, LocalCluster
    >>> client = Client(LocalCluster(n_workers=2, threads_per_worker=1))  # doctest: +SKIP
    >>> model = DaskMulticlassSVC(C=0.1, intercept="penalized").fit(X, y)  # doctest: +SKIP
    >>> model.to_local().predict(rows)  # doctest: +SKIP
    """

    _local_kind = MulticlassSVC

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DaskMulticlassSVC:
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
        data = self._look(X, y, sample_weight)
        spec = linear_spec(self, data.classes, data.mass, data.n_features)
        run = self._run(())
        team = self._team(data, spec, run.seed)
        rounds = Rounds(
            team,
            spec.shape,
            run.stop.tol,
            run.stop.max_iter,
            why_stop=run.why_end,
            watch=lambda one: self._watch(team, one),
        )
        with deferred_interrupt(run.clock), team:
            team.start()
            result = rounds.run(warm=team.is_resumed)
        store_parts(self, spec, result, team.n_rows)
        self._finish(team, result)
        return self
