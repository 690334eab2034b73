"""ExportModel: what prediction needs of a fitted model, in one small record.

Every format is written from this record, so that all of them say the same.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from polymargin import __version__
from polymargin.estimators.base import LargeMarginClassifier
from polymargin.estimators.convex_hull import ConvexHullSVC
from polymargin.estimators.number_formats import CompactModel
from polymargin.estimators.prototype_base import PrototypeClassifier
from polymargin.estimators.scalers import (
    Normalization,
    Scaling,
    compose_scalers,
    split_at_normalizer,
)
from polymargin.estimators.temperature import log_softmax
from polymargin.export.labels import Label, labels_of
from polymargin.export.table_encoding import TableEncoding, encoding_of
from polymargin.problem.kernels import EACH, Kernel, squared_norms
from polymargin.problem.own_kernel_lists import list_scores

__all__ = ["ExportModel"]

_LARGEST_BYTES = 2_000_000_000  # of dense vectors; an ONNX file holds no more


@dataclass(frozen=True, eq=False)
class ExportModel:
    r"""A fitted model reduced to what prediction needs.

    With z the scaled features, prototype r scores
    :math:`f_r(x) = \langle v_r, z\rangle + b_r`, or with a kernel
    :math:`f_r(x) = \sum_i t_{ir}\, \kappa(v_i, z) + b_r`.  A class scores what its best prototype
    does; of two classes the first always scores 0 and the second the difference, which is
    ``decision_function``.  The label is that of the highest score, the first among equals.

    Attributes
    ----------
    kind : {"linear", "prototypes", "kernel", "hull"}
        One vector per class, several, support vectors, or convex-hull prototypes (of any kernel).
    estimator : str
        Class of the model.
    labels : tuple of n_classes labels
        Plain int, float, bool or str, in the order of the scores.
    label_type : {"int", "float", "bool", "str"}
    n_features : int
    feature_names : tuple of str or None
    scaling : Scaling or None
        ``z = (x - shift) * scale``, perhaps limited; None means ``z = x``.
    kernel : {"linear", "rbf", "poly", "sigmoid", "sum", "each"}
        "each": prototype number j of a class has the kernel ``terms[j]``.
    gamma, degree, coef0 : float
    vectors : ndarray of shape (R, n_features) or (n_support, n_features)
        Prototypes of a linear kernel, support vectors of others.
    coefficients : ndarray of shape (n_support, R) or None
        t; None for a linear kernel.
    intercepts : ndarray of shape (R,)
    prototype_class : ndarray of shape (R,)
        Class number of each prototype, in growing order.  Two classes with one prototype each are
        kept as a single one of class 1, the difference of both.
    center : ndarray of shape (n_features,) or None
        Mean of the prototypes of a linear convex-hull model, for information: it is contained in
        the intercepts.
    mean, spread : ndarray of shape (n_features,) or None
        Mean and standard deviation of the scaled features among the support vectors, by which
        writers choose a good scale of numbers; None where there are none.
    temperature : float or None
        Of a model with probabilities: softmax(scores / temperature).
    metadata : dict
        Producer, version, machine, status and certificate of the training.
    encoding : TableEncoding or None
        How the features follow from the columns of a raw table, for a model that takes one.
    normalizer : Normalization or None
        Rows of unit length: applied to the raw features before ``scaling``.
    compact : CompactModel or None
        The integers of a model that was fitted into a size (``fit_into``).
    terms : tuple of (weight, Kernel)
        Of a sum of kernels, or the kernels of the prototypes of a class.

    See Also
    --------
    export_model : Writes it in any format.
    to_json : Writes it as JSON.

    Examples
    --------
    >>> from polymargin import ExportModel, MulticlassSVC
    >>> model = MulticlassSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> record = ExportModel.from_estimator(model)
    >>> record.kind, record.n_features
    ('linear', 1)
    """

    kind: str
    estimator: str
    labels: tuple[Label, ...]
    label_type: str
    n_features: int
    feature_names: tuple[str, ...] | None
    scaling: Scaling | None
    kernel: str
    gamma: float
    degree: float
    coef0: float
    vectors: np.ndarray
    coefficients: np.ndarray | None
    intercepts: np.ndarray
    prototype_class: np.ndarray
    center: np.ndarray | None = None
    mean: np.ndarray | None = None
    spread: np.ndarray | None = None
    temperature: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    encoding: TableEncoding | None = None
    normalizer: Normalization | None = None
    compact: CompactModel | None = None
    terms: tuple[tuple[float, Kernel], ...] = ()

    @classmethod
    def from_estimator(cls, model: Any) -> ExportModel:
        """The record of a fitted estimator, Pipeline of scalers and estimator, or search.

        Parameters
        ----------
        model : MulticlassSVC, MultiPrototypeSVC, ConvexHullSVC, Pipeline, search or ExportModel
            A record is returned as it is.
        """
        if isinstance(model, ExportModel):
            return model
        names = _feature_names(model)
        steps, estimator = _unwrap(model)
        if not isinstance(estimator, LargeMarginClassifier):
            raise ValueError(
                f"model: {type(estimator).__name__} cannot be exported; give a fitted polymargin "
                "classifier, a Pipeline of scalers and one, or a search over these."
            )
        check_is_fitted(estimator, "intercept_")
        _check_kernel(estimator)
        encoding = encoding_of(steps)
        normalizer = None
        if encoding is None:
            normalizer, steps = split_at_normalizer(steps)
            scaling = compose_scalers(steps)
        else:
            names = tuple(feature.name for feature in encoding.features)
            more = compose_scalers(steps[2:])
            scaling = encoding.scaling if more is None else encoding.scaling.then(more)
        kind, label = _kind(estimator), labels_of(estimator.classes_)
        vectors, coefficients, intercepts = _coefficients(estimator)
        _check_numbers(vectors, coefficients, intercepts)
        mean, spread = _statistics(getattr(estimator, "support_vectors_", None))
        center = getattr(estimator, "center_", None)
        prototype_class = getattr(estimator, "_prototype_class", np.arange(len(label[1])))
        if len(intercepts) < len(prototype_class):
            prototype_class = np.array([1])
        kernel = estimator._kernel
        gamma = kernel.gamma
        if np.ndim(gamma):
            # one width per feature is one width of features that are scaled once more
            factor, gamma = np.sqrt(gamma), 1.0
            widths = Scaling(np.zeros(len(factor)), factor)
            scaling = widths if scaling is None else scaling.then(widths)
            vectors = vectors * factor
            mean, spread = (None if part is None else part * factor for part in (mean, spread))
        return cls(
            kind=kind,
            estimator=type(estimator).__name__,
            labels=label[1],
            label_type=label[0],
            n_features=vectors.shape[1],
            feature_names=names,
            scaling=scaling,
            kernel=kernel.name,
            gamma=float(gamma),
            degree=float(kernel.degree),
            coef0=float(kernel.coef0),
            vectors=vectors,
            coefficients=coefficients,
            intercepts=intercepts,
            prototype_class=np.asarray(prototype_class, dtype=np.int64),
            center=None if center is None else np.asarray(center, dtype=np.float64),
            mean=mean,
            spread=spread,
            temperature=_temperature(estimator),
            metadata=_metadata(estimator)
            | ({} if encoding is None else {"table": encoding.record()}),
            encoding=encoding,
            normalizer=normalizer,
            compact=_compact(estimator),
            terms=kernel.parts,
        )

    @property
    def n_classes(self) -> int:
        return len(self.labels)

    @property
    def is_linear(self) -> bool:
        return self.coefficients is None

    def refuse_sum(self, target: str) -> None:
        """Refuse a sum of kernels in a format that has no such kernel."""
        if self.terms:
            what = "one kernel per prototype" if self.kernel == EACH else "a sum of kernels"
            raise ValueError(
                f"model: {what} cannot be exported to {target}; export it as JSON, or "
                "train with kernel='linear', 'rbf', 'poly' or 'sigmoid'."
            )

    @property
    def is_difference(self) -> bool:
        """Two classes, kept as the single prototype by which the second leads."""
        return self.n_classes == 2 and len(self.prototype_class) == 1

    def first_prototypes(self) -> np.ndarray:
        """(n_classes + 1,) numbers at which the prototypes of each class begin."""
        return np.searchsorted(self.prototype_class, np.arange(self.n_classes + 1))

    def scores(self, X: Any) -> np.ndarray:
        """(n, n_classes) scores in float64: what every exported format must reproduce.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        """
        Z = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
        Z = Z if self.normalizer is None else self.normalizer.apply(Z)
        Z = Z if self.scaling is None else self.scaling.apply(Z)
        f = self._prototype_scores(Z)
        if self.is_difference:
            return np.column_stack([np.zeros(len(f)), f[:, 0]])
        first = self.first_prototypes()
        S = np.column_stack([f[:, a:b].max(axis=1) for a, b in itertools.pairwise(first)])
        return S - S[:, :1] if self.n_classes == 2 else S

    def probabilities(self, X: Any) -> np.ndarray:
        """(n, n_classes) probabilities of a model that has them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        """
        if self.temperature is None:
            raise ValueError(
                "model: it has no probabilities; train with probabilities='temperature'."
            )
        return np.asarray(np.exp(log_softmax(self.scores(X), self.temperature)))

    def _prototype_scores(self, Z: np.ndarray) -> np.ndarray:
        if self.coefficients is None:
            return Z @ self.vectors.T + self.intercepts
        if self.kernel == EACH:
            kernel, owner = Kernel(EACH, parts=self.terms), self.prototype_class
            return list_scores(kernel, self.vectors, self.coefficients, self.intercepts, owner, Z)
        if self.terms:
            V = self.vectors
            sum_of_terms = Kernel("sum", parts=self.terms)
            K = sum_of_terms.block(Z, V, squared_norms(Z), squared_norms(V))
        elif self.kernel == "rbf":
            centre = self.vectors.mean(axis=0) if len(self.vectors) else 0.0
            Z, V = Z - centre, self.vectors - centre  # distances do not change, rounding does
            square = (Z**2).sum(axis=1)[:, None] + (V**2).sum(axis=1)
            K = np.exp(-self.gamma * np.maximum(square - 2.0 * Z @ V.T, 0.0))
        else:
            K = self.gamma * (Z @ self.vectors.T) + self.coef0
            K = K**self.degree if self.kernel == "poly" else np.tanh(K)
        return K @ self.coefficients + self.intercepts


# -- from estimator to record ------------------------------------------------------------------


def _unwrap(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps in front of the estimator, and the estimator itself."""
    if isinstance(model, Pipeline):
        if not model.steps or model.steps[-1][1] in (None, "passthrough"):
            raise ValueError("model: the Pipeline has no classifier as its last step.")
        before, estimator = _unwrap(model.steps[-1][1])
        return [*model.steps[:-1], *before], estimator
    if hasattr(model, "best_estimator_"):
        return _unwrap(model.best_estimator_)
    if type(model).__name__ == "FrozenEstimator":
        return _unwrap(model.estimator)
    if isinstance(model, BaseSearchCV):
        check_is_fitted(model)
        raise ValueError(f"model: {type(model).__name__} has refit=False and kept no estimator.")
    return [], model


def _feature_names(model: Any) -> tuple[str, ...] | None:
    """Names of the raw features, from the outermost object that knows them."""
    seen = [model]
    if isinstance(model, Pipeline) and model.steps:
        seen += [step for _, step in model.steps[:1]]
    for one in seen:
        names = getattr(one, "feature_names_in_", None)
        if names is not None:
            return tuple(str(name) for name in names)
    inner = getattr(model, "best_estimator_", None)
    return None if inner is None else _feature_names(inner)


def _check_kernel(estimator: LargeMarginClassifier) -> None:
    name = estimator._kernel.name
    if name == "precomputed":
        raise ValueError(
            "model: kernel='precomputed' cannot be exported: the model knows kernel values only, "
            "not the support vectors; train with kernel='linear', 'rbf', 'poly' or 'sigmoid'."
        )
    if name == "callable":
        raise ValueError(
            "model: a callable kernel cannot be exported: it is Python code; train with "
            "kernel='linear', 'rbf', 'poly' or 'sigmoid'."
        )


def _kind(estimator: LargeMarginClassifier) -> str:
    if isinstance(estimator, ConvexHullSVC):
        return "hull"
    if not estimator._kernel.is_linear:
        return "kernel"
    return "prototypes" if isinstance(estimator, PrototypeClassifier) else "linear"


def _coefficients(
    estimator: Any,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Vectors, coefficients (None if linear) and intercepts; two single prototypes as one."""
    intercepts = np.asarray(estimator.intercept_, dtype=np.float64)
    several = len(getattr(estimator, "_prototype_class", ())) > 2
    two = len(estimator.classes_) == 2 and not several
    if estimator._kernel.is_linear:
        is_prototype = isinstance(estimator, PrototypeClassifier)
        W = np.asarray(estimator.prototypes_ if is_prototype else estimator.coef_, np.float64)
        if two and len(W) == 2 and not hasattr(estimator, "compact_"):
            W, intercepts = W[1:] - W[:1], intercepts[1:] - intercepts[:1]
        return W, None, intercepts
    tau = np.asarray(estimator.dual_coef_, dtype=np.float64)
    if two:
        tau, intercepts = tau[:, 1:] - tau[:, :1], intercepts[1:] - intercepts[:1]
    vectors = _dense(estimator.support_vectors_)
    if not len(vectors):  # formats know no empty tables: one vector that counts for nothing
        vectors, tau = np.zeros((1, vectors.shape[1])), np.zeros((1, tau.shape[1]))
    return vectors, tau, intercepts


def _compact(estimator: Any) -> CompactModel | None:
    record = getattr(estimator, "compact_", None)
    return None if record is None else CompactModel.of_record(record)


def _temperature(estimator: Any) -> float | None:
    asked = estimator._calibration_parameters()[0] is not None
    found = getattr(estimator, "temperature_", None)
    return float(found) if asked and found is not None else None


def _check_numbers(*arrays: np.ndarray | None) -> None:
    if not all(values is None or np.isfinite(values).all() for values in arrays):
        raise ValueError(
            "model: its coefficients are not all finite numbers, so there is nothing to export; "
            "look at status_ and train again."
        )


def _dense(vectors: Any) -> np.ndarray:
    needed = 8 * vectors.shape[0] * vectors.shape[1]
    if needed > _LARGEST_BYTES:
        raise ValueError(
            f"model: {vectors.shape[0]} support vectors of {vectors.shape[1]} features need "
            f"{needed / 1e9:.1f} GB as dense numbers, more than any of the formats holds; train "
            "with kernel='linear', or reduce the features first."
        )
    return np.asarray(vectors.toarray() if sp.issparse(vectors) else vectors, dtype=np.float64)


@np.errstate(over="ignore", invalid="ignore")
def _statistics(vectors: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Mean and standard deviation of every feature of the support vectors."""
    if vectors is None or vectors.shape[0] < 2 or vectors.shape[1] == 0:
        return None, None
    if not sp.issparse(vectors):
        values = np.asarray(vectors, dtype=np.float64)
        return values.mean(axis=0), values.std(axis=0)
    values = vectors.astype(np.float64)
    mean = np.asarray(values.mean(axis=0)).ravel()
    square = np.asarray(values.multiply(values).mean(axis=0)).ravel()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _metadata(estimator: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"producer": "polymargin", "version": __version__}
    machine = getattr(estimator, "machine", None)
    if machine is not None:
        found["machine"] = machine if isinstance(machine, str) else machine.name
    if hasattr(estimator, "status_"):
        found["status"] = str(estimator.status_)
    certificate = getattr(estimator, "certificate_", None)
    if certificate is not None:
        numbers = {
            name: float(getattr(certificate, name))
            for name in ("primal", "dual", "gap", "relative_gap")
        }
        # JSON knows no infinity: null says that a value is not known
        found["certificate"] = {
            name: value if np.isfinite(value) else None for name, value in numbers.items()
        }
        psd = certificate.kernel_psd
        found["certificate"]["kernel_psd"] = None if psd is None else bool(psd)
    return found
