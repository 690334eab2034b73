"""Support vectors as integers, and coefficients that make up for their rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from polymargin.export.record import ExportModel
from polymargin.kernels import Kernel, squared_norms

__all__ = ["corrected_coefficients", "quantise_columns"]

_RIDGE = 1e-3  # times the mean of kappa(v, v)
_MOST_WORK = 3e11  # floating point operations, half a minute or less
_LARGEST_BLOCK = 6000  # support vectors of one prototype


def quantise_columns(values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Integers and one step per column: values are about integer * step."""
    step = np.abs(values).max(axis=0, initial=0.0) / np.iinfo(dtype).max
    step[step == 0.0] = 1.0
    return np.rint(values / step).astype(dtype), step


def corrected_coefficients(
    record: ExportModel, vectors: np.ndarray, rounded: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Coefficients with which the rounded support vectors come closest to the model.

    Rounding moves every support vector, and the kernel functions of the moved ones no longer
    cancel as those of the others did.  The best coefficients in the norm of the kernel's space
    solve K' t' = K'' t, with kernel values K' among rounded vectors and K'' between rounded and
    original ones; each prototype keeps the support vectors it has.

    Parameters
    ----------
    record : ExportModel
    vectors, rounded : ndarray of shape (n_support, n_features)
        With sqrt(gamma) folded in.
    tau : ndarray of shape (n_support, R)

    Returns
    -------
    coefficients : ndarray of shape (n_support, R)
    remarks : list of str
    """
    if record.kernel == "sigmoid" or not len(vectors):
        return tau, []  # no norm to be close in
    members = [np.flatnonzero(column) for column in tau.T]
    sizes = np.array([len(one) for one in members], dtype=np.float64)
    work = (sizes**3 / 3.0).sum() + 2.0 * len(vectors) * (sizes * vectors.shape[1]).sum()
    if work > _MOST_WORK or sizes.max() > _LARGEST_BLOCK:
        return tau, ["The model is too large for coefficients fitted to the rounded vectors."]
    kernel = Kernel(record.kernel, 1.0, record.degree, record.coef0)
    found = tau.copy()
    for r, mine in enumerate(members):
        if not len(mine):
            continue
        Z = rounded[mine]
        z = squared_norms(Z)
        K = kernel.block(Z, Z, z, z)
        wanted = kernel.block(Z, vectors[mine], z, squared_norms(vectors[mine])) @ tau[mine, r]
        ridge = _RIDGE * float(np.abs(np.diag(K)).mean())
        lack = wanted - K @ tau[mine, r]
        try:
            change = scipy.linalg.solve(K + ridge * np.eye(len(mine)), lack, assume_a="pos")
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(change).all():
            found[mine, r] += change
    return found, ["Coefficients are fitted to the rounded support vectors."]
