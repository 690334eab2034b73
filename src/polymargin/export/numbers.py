"""Choices about numbers: where a scaler is folded, where features are measured from.

In exact arithmetic all of these are the same model; in float32 and in integers they are not.
"""

from __future__ import annotations

import numpy as np

from polymargin.export.model_record import ExportModel

__all__ = [
    "centred_weights",
    "folded_weights",
    "is_well_conditioned",
    "raw_statistics",
    "weights_at",
]

_LARGEST_AMPLIFICATION = 3.0


def folded_weights(record: ExportModel) -> tuple[np.ndarray, np.ndarray]:
    """Weights and intercepts of a linear record on raw features: W x + b."""
    return weights_at(record, np.zeros(record.n_features))


def centred_weights(record: ExportModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shift, weights and intercepts with scores W (x - shift) + b."""
    mean, _ = raw_statistics(record)
    W, b = weights_at(record, mean)
    return mean, W, b


def weights_at(record: ExportModel, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and b with scores W (x - origin) + b, in float64."""
    scaling = record.scaling
    if scaling is None:
        return record.vectors, record.intercepts + record.vectors @ origin
    W = record.vectors * scaling.scale
    return W, record.intercepts + W @ (origin - scaling.shift)


def raw_statistics(record: ExportModel) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of the raw features, as far as support vectors and scaler tell them.

    Without support vectors scaled features count as standardised.
    """
    d = record.n_features
    mean = np.zeros(d) if record.mean is None else record.mean
    spread = np.ones(d) if record.spread is None else record.spread
    # a feature that is constant among the support vectors may still vary elsewhere
    spread = np.where(spread > 0.0, spread, 1e-3 * np.abs(mean))
    if record.scaling is None:
        return mean, spread
    return record.scaling.shift + mean / record.scaling.scale, spread / record.scaling.scale


def is_well_conditioned(record: ExportModel) -> bool:
    """Whether folding the shift into the intercepts costs float32 at most two bits.

    The rounding error of a folded score grows with sum_j |w_j| |x_j|, that of a centred one with
    sum_j |w_j| |x_j - mean_j|.
    """
    mean, spread = raw_statistics(record)
    W = np.abs(folded_weights(record)[0])
    return bool((W @ np.hypot(mean, spread) <= _LARGEST_AMPLIFICATION * (W @ spread)).all())
