"""Linear machines on a Dask cluster: rows stay on their workers, prototypes travel.

``pip install 'polymargin[dask]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polymargin.dask.dask_multiclass import DaskMulticlassSVC as DaskMulticlassSVC
    from polymargin.dask.dask_prototypes import DaskMultiPrototypeSVC as DaskMultiPrototypeSVC

__all__ = ["DaskMultiPrototypeSVC", "DaskMulticlassSVC"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'polymargin.dask' has no attribute {name!r}")
    from polymargin._extras import need

    need("distributed", "Training on a cluster", "dask")
    if name == "DaskMulticlassSVC":
        from polymargin.dask import dask_multiclass

        return getattr(dask_multiclass, name)
    from polymargin.dask import dask_prototypes

    return getattr(dask_prototypes, name)
