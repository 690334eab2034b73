"""Model files: ``save`` and ``load``, safe to read from strangers, whole or not at all.

A file is: magic, format version, length of the header, header (JSON), payload (skops), SHA-256 of
all bytes before it.  The header can be read without touching the payload.  The payload is read only
if the checksum is right, every loader and every type in it stands on the lists below, and skops
itself finds nothing else in it: no code of the file ever runs.  How much memory it may take is
limited before it is unpacked, and what was loaded is checked: every array has the shape, the range
and the finite numbers that prediction trusts.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import polymargin
from polymargin.estimators.prototype_base import OPPOSITE_PROTOTYPE
from polymargin.exceptions import ModelFileError
from polymargin.storage.atomic import atomic_file
from polymargin.storage.model_checks import check_model
from polymargin.storage.model_payload import nodes, repacked, unpacked_bytes

__all__ = ["FORMAT_VERSION", "load", "read_header", "save"]

MAGIC = b"\x93PMARGIN\r\n\x1a\n"
FORMAT_VERSION = 2
"""The newest that is read.  2 is written for models that keep one of two opposite prototypes, and
1, which older libraries read too, for all others."""
_FRONT = struct.Struct("<12sIQ")
_DIGEST = 32
_LONGEST_HEADER = 1 << 28
_LEAST_LIMIT, _LIMIT_RATIO = 1 << 26, 100
"""What ``load`` unpacks unless told: 64 MiB, or 100 times the file; ``save`` stays below it."""


_HEADER: dict[str, Any] = {
    "library": str | None,
    "labels": list | None,
    "estimator": list | None,
    "n_features": int | None,
    "feature_names": list | None,
    "label_name": str | None,
    "zero_based": bool | None,
    "trained_rows": int | None,
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OWN = frozenset(
    f"polymargin.{name}"
    for name in (
        "problem.annealing.Annealing",
        "certificate.certificate.Certificate",
        "certificate.exact_kernel.ExactKernelBounds",
        "estimators.auto.AutoSVC",
        "tables.table_columns.TableColumns",
        "estimators.convex_hull.ConvexHullSVC",
        "estimators.multiclass.MulticlassSVC",
        "problem.kernels.Kernel",
        "problem.machines.Machine",
        "estimators.multi_prototype.MultiPrototypeSVC",
        "estimators.multi_prototype_cv.MultiPrototypeSVCCV",
        "solvers.smo.pattern_smo.PatternSMO",
        "solvers.working_sets.WorkingSets",
    )
)

# What stands around a classifier in a model that is saved: by sub-package, whose files may move.
_SKLEARN: dict[str, frozenset[str]] = {
    "calibration": _names(
        "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration _TemperatureScaling"
    ),
    "compose": _names("ColumnTransformer"),
    "decomposition": _names("PCA TruncatedSVD"),
    "feature_extraction": _names("TfidfTransformer TfidfVectorizer CountVectorizer DictVectorizer"),
    "feature_selection": _names("VarianceThreshold"),
    "frozen": _names("FrozenEstimator"),
    "impute": _names("SimpleImputer MissingIndicator"),
    "isotonic": _names("IsotonicRegression"),
    "metrics": _names("_PassthroughScorer"),
    "model_selection": _names(
        "GridSearchCV RandomizedSearchCV StratifiedKFold KFold ShuffleSplit "
        "StratifiedShuffleSplit RepeatedStratifiedKFold FixedThresholdClassifier"
    ),
    "pipeline": _names("Pipeline FeatureUnion"),
    "preprocessing": _names(
        "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer QuantileTransformer "
        "PowerTransformer PolynomialFeatures OneHotEncoder OrdinalEncoder LabelEncoder "
        "KBinsDiscretizer SplineTransformer"
    ),
}

_PLAIN = frozenset(
    ["builtins." + n for n in _names("bool bytes dict float int list set slice str tuple NoneType")]
    + ["collections.OrderedDict", "collections.defaultdict"]
    + ["numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray", "numpy.dtype"]
    + ["numpy.random.mtrand.RandomState", "numpy.random._generator.Generator"]
    + [f"scipy.sparse._{n}.{n}_{kind}" for n in ("csr", "csc") for kind in ("matrix", "array")]
)
_NUMPY = _names(
    "ndarray bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "longdouble str_ bytes_ object_ intp longlong ulonglong"
)
_LOADERS = _names(
    "BytesNode CachedNode DTypeNode DefaultDictNode DictNode JsonNode ListNode MaskedArrayNode "
    "NdArrayNode ObjectNode RandomGeneratorNode RandomStateNode SetNode SliceNode SparseMatrixNode "
    "TupleNode TypeNode"
)


# -- saving ------------------------------------------------------------------------------------


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted.  A kernel or a machine of one's own that is a Python function or class cannot be
        stored: a file that is safe to load carries no code.  (A ``polymargin.Machine`` is a table
        row and can.)
    path : str or path-like

    See Also
    --------
    load : Reads it back.
    export_model : For use outside of Python.

    Notes
    -----
    The same model gives the same bytes, and so do two fits with the same data, parameters and seed:
    the file leaves out when something happened (``history_["seconds"]``).

    Raises
    ------
    ModelFileError
        If the model is not fitted or holds something that ``load`` would refuse.
    OSError
        If the file cannot be written; what stood there before is untouched.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polymargin import MulticlassSVC, save
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.pm")
    >>> save(MulticlassSVC().fit([[0.0], [1.0]], ["a", "b"]), path)
    >>> path.exists()
    True
    """
    write_model(model, path)


def write_model(
    model: Any, path: str | os.PathLike[str], extra: dict[str, Any] | None = None
) -> int:
    """``save`` with further facts for the header; the number of bytes comes back."""
    payload = _payload(model)
    header = json.dumps(_describe(model, extra or {}, len(payload)), allow_nan=False).encode()
    front = _FRONT.pack(MAGIC, _version(payload), len(header)) + header
    digest = hashlib.sha256(front)
    digest.update(payload)
    with atomic_file(path) as file:
        for piece in (front, payload, digest.digest()):
            file.write(piece)
    return len(front) + len(payload) + _DIGEST


def _payload(model: Any) -> bytes:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        raise ModelFileError(
            f"model: {type(model).__name__} is not a fitted estimator or Pipeline; fit it first."
        ) from error
    for part in _parts(model):
        if callable(getattr(part, "kernel", None)):
            raise ModelFileError(
                "kernel: a Python function cannot be stored in a model file, which carries no "
                "code; use a named kernel, or precompute the kernel matrix."
            )
    import skops.io as skops

    try:
        check_model(model)
        payload = _packed(skops.dumps(_without_seconds(model)))
    except (TypeError, ValueError, AttributeError, NotImplementedError, LookupError) as error:
        raise ModelFileError(f"model: cannot be stored: {_one_line(error)}") from error
    stranger = _stranger(payload)
    if stranger is not None:
        raise ModelFileError(
            f"model: {stranger} is not on the list of what a model file may hold; store the parts "
            "that are, or use another format for this model."
        )
    return payload


def _version(payload: bytes) -> int:
    """The format version of a payload."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        schema = archive.read("schema.json")
    return 2 if f'"{OPPOSITE_PROTOTYPE}"'.encode() in schema else 1


def _packed(dumped: bytes) -> bytes:
    """Packed, unless that is so good that ``load`` would take it for an attack."""
    payload = repacked(dumped, zipfile.ZIP_DEFLATED)
    most = _limit(len(payload))
    if unpacked_bytes(payload, most) > most:
        payload = repacked(dumped, zipfile.ZIP_STORED)
    return payload


def _limit(size: int) -> int:
    return max(_LEAST_LIMIT, _LIMIT_RATIO * size)


def _parts(model: Any) -> list[Any]:
    """The model and the estimators inside it."""
    found, todo = [], [model]
    while todo:
        part = todo.pop()
        found.append(part)
        if hasattr(part, "get_params"):
            todo += [v for v in part.get_params(deep=False).values() if hasattr(v, "get_params")]
        if hasattr(part, "steps"):
            todo += [step for _, step in part.steps if hasattr(step, "get_params")]
    return found


def _without_seconds(model: Any) -> Any:
    """A shallow copy without readings of the clock: two fits of one seed give the same file."""
    changes: dict[str, Any] = {}
    for name in ("history_", "tried_", "choice_"):
        columns = getattr(model, name, None)
        if isinstance(columns, dict) and "seconds" in columns:
            changes[name] = {key: column for key, column in columns.items() if key != "seconds"}
    if hasattr(model, "best_estimator_"):
        changes["best_estimator_"] = _without_seconds(model.best_estimator_)
    if hasattr(model, "steps"):
        changes["steps"] = [(name, _without_seconds(step)) for name, step in model.steps]
    if not changes:
        return model
    found = copy.copy(model)
    found.__dict__.update(changes)
    return found


def _describe(model: Any, extra: dict[str, Any], size: int) -> dict[str, Any]:
    from importlib.metadata import version

    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    libraries = ("numpy", "scipy", "scikit-learn", "skops")
    return {
        "library": polymargin.__version__,
        "libraries": {name: version(name) for name in libraries},
        "estimator": [type(step).__name__ for step in steps],
        "labels": None if classes is None else [_plain(label) for label in classes],
        "n_features": getattr(model, "n_features_in_", None),
        "feature_names": None if names is None else [str(name) for name in names],
        "payload": size,
        **extra,
    }


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


# -- loading -----------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], max_bytes: int | None = None) -> Any:
    """The model that ``save`` wrote.

    Parameters
    ----------
    path : str or path-like
    max_bytes : int or None, default=None
        The most that the file may unpack to; more is refused before it is unpacked.  None is
        64 MiB or 100 times the size of the file, whichever is more, below which ``save`` stays.

    Returns
    -------
    estimator or Pipeline
        As it was saved; predictions are the same to the last bit.

    Raises
    ------
    ModelFileError
        If the file is no model file, is newer than this library, is truncated or changed, unpacks
        to more than ``max_bytes``, holds a type that is not on the list of what may be loaded, or
        arrays that contradict each other.
    OSError
        If the file cannot be read.

    See Also
    --------
    save : Writes it.
    ModelFileError : What a refused file raises.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polymargin import MulticlassSVC, load, save
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.pm")
    >>> save(MulticlassSVC().fit([[0.0], [1.0]], ["a", "b"]), path)
    >>> load(path).predict([[1.0]]).tolist()
    ['b']
    """
    return read_model(path, max_bytes)[0]


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the file says of its model; the whole file is checked, nothing of it is loaded."""
    return _decode(Path(path))[0]


def read_model(
    path: str | os.PathLike[str], max_bytes: int | None = None
) -> tuple[Any, dict[str, Any]]:
    """The model and the header of its file."""
    header, payload = _decode(Path(path))
    import skops.io as skops

    try:
        _check_size(path, payload, max_bytes)
        stranger = _stranger(payload)
        if stranger is not None:
            raise ModelFileError(
                f"{path}: holds {stranger}, which is not on the list of what a model file may "
                "hold; refused."
            )
        named = skops.get_untrusted_types(data=payload)
        model = skops.loads(payload, trusted=[n for n in named if _is_known(n)])
        check_model(model)
    except ModelFileError:
        raise
    except Exception as error:  # whatever a strange payload makes of the loader
        raise ModelFileError(f"{path}: the model cannot be restored: {_one_line(error)}") from error
    return model, header


def _check_size(path: Any, payload: bytes, max_bytes: int | None) -> None:
    try:
        most = _limit(len(payload)) if max_bytes is None else max_bytes
        size = unpacked_bytes(payload, most)
    except Exception as error:  # damaged archives make zipfile and zlib raise errors of many kinds
        raise ModelFileError(
            f"{path}: holds no readable skops archive ({_one_line(error)}); refused."
        ) from error
    if size > most:
        raise ModelFileError(
            f"{path}: {len(payload)} bytes would unpack to {size} or more, above the limit of "
            f"{most}; if you trust the file, load it with a larger max_bytes."
        )


def _decode(path: Path) -> tuple[dict[str, Any], bytes]:
    with path.open("rb") as file:
        data = file.read(len(MAGIC))
        if data == MAGIC:  # nothing else is read to its end, which a device may not have
            data += file.read()
    if len(data) < len(MAGIC) or not data.startswith(MAGIC):
        is_start = len(data) > 0 and MAGIC.startswith(data)
        what = "is truncated" if is_start else "is not a polymargin model file"
        raise ModelFileError(f"{path}: {'is empty' if not data else what}.")
    if len(data) < _FRONT.size + _DIGEST:
        raise ModelFileError(f"{path}: is truncated.")
    _, version, length = _FRONT.unpack_from(data)
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: has format version {version}, newer than {FORMAT_VERSION}, the newest that "
            f"polymargin {polymargin.__version__} reads; update polymargin."
        )
    body = _FRONT.size + length
    changed = f"{path}: is damaged: its checksum is wrong (bytes missing or changed)."
    if length > _LONGEST_HEADER or body + _DIGEST > len(data):
        raise ModelFileError(f"{path}: is truncated or damaged.")
    if hashlib.sha256(memoryview(data)[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise ModelFileError(changed)
    try:
        header = json.loads(data[_FRONT.size : body])
        header["format"] = version
        header["checksum"] = data[-_DIGEST:].hex()
        header["file_bytes"] = len(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(changed) from error
    wrong = [name for name, kinds in _HEADER.items() if not isinstance(header.get(name), kinds)]
    if wrong:
        raise ModelFileError(
            f"{path}: is damaged: {wrong[0]} of its header is not what it should be."
        )
    return header, data[body:-_DIGEST]


def _stranger(payload: bytes) -> str | None:
    """The first loader or type in the payload that is on none of the lists, in words."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        schema = json.loads(archive.read("schema.json"))
    for node in nodes(schema):
        if "__loader__" in node:
            if str(node["__loader__"]) not in _LOADERS:
                return f"a {str(node['__loader__'])[:40]} ({_name_of(node)})"
            if not _is_known(_name_of(node)):
                return f"the type {_name_of(node)}"
    return None


def _name_of(node: dict[str, Any]) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"[:120]


def _is_known(name: str) -> bool:
    if name in _OWN or name in _PLAIN:
        return True
    module, _, last = name.rpartition(".")
    if module == "numpy":
        return last in _NUMPY
    if module == "numpy.dtypes":
        return last.endswith("DType")
    parts = module.split(".")
    return parts[0] == "sklearn" and len(parts) > 1 and last in _SKLEARN.get(parts[1], ())


def _one_line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
