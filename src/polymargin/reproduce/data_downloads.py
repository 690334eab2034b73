"""``polymargin data get``: data sets from OpenML, accepted only if they are the ones meant.

Sizes, class counts and a SHA-256 digest of the rows are compared with those of the copies that the
experiments were made with.  A set whose official split is a matter of row numbers must come in the
original order too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polymargin.reproduce.benchmark_data import MissingDataError, download_folder
from polymargin.storage.atomic import atomic_file

__all__ = ["SOURCES", "Source", "get_data", "ordered_digest", "unordered_digest"]


@dataclass(frozen=True)
class Source:
    """Where a set comes from and how it is recognised.

    Attributes
    ----------
    data_id : int
        Number at OpenML.
    rows, features, classes : int
    n_train : int or None
        The first so many rows are the official training part; None without an official split.
    ordered, unordered : str
        SHA-256 of the rows in order, with labels; and of the rows in any order.
    """

    data_id: int
    rows: int
    features: int
    classes: int
    n_train: int | None
    ordered: str
    unordered: str


def _float32(X: Any) -> np.ndarray:
    """Little-endian single precision, one zero: the same digits give the same bytes anywhere."""
    return np.ascontiguousarray(np.asarray(X, dtype="<f4") + np.float32(0.0))


def _numbered(y: Any) -> np.ndarray:
    """Class numbers in the order of first appearance, whatever the labels are called."""
    _, first, number = np.unique(np.asarray(y), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype="<i4")
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[number])


def ordered_digest(X: Any, y: Any) -> str:
    """SHA-256 of rows and labels in their order."""
    return hashlib.sha256(_float32(X).tobytes() + _numbered(y).tobytes()).hexdigest()


def unordered_digest(X: Any, y: Any) -> str:
    """SHA-256 of the rows in any order, and of the sorted class counts."""
    counts = np.sort(np.unique(np.asarray(y), return_counts=True)[1]).astype("<i4")
    rows = sorted(row.tobytes() for row in _float32(X))
    return hashlib.sha256(b"".join(rows) + counts.tobytes()).hexdigest()


# OpenML number, rows, features, classes, training rows; digests in order and in any order
# fmt: off
SOURCES: dict[str, Source] = {
    "usps": Source(41082, 9298, 256, 10, 7291,
        "b14169aa1535cd441facccc20b59fd624228553ff84ae81e617895e1c8a57bda",
        "2afd94df501790ab965c2b9c284feb63dba35ad1487898bfb69a22be85120847"),
    "letter": Source(6, 20000, 16, 26, 15000,
        "2cc16e2d65aefbd1ebe8fdd9ec63a103dec914da15bffbd651de1e365de6aec6",
        "a2eaab5146d7934687c38574d22b589f165a84b351b1dc27043fd976001a0d5f"),
    "mnist": Source(554, 70000, 784, 10, 60000,
        "6141baa939c8e74950309042faebafcfdf0c629e791f1476af2ad64d2853490d",
        "d5c449804b671d34775cba911699671a39661eeed97563b3cf143caf4197458d"),
    "pendigits": Source(32, 10992, 16, 10, 7494,
        "3f7c5f3ce079d614285d3b015b655c8a15e7bae0de45ef62dc3bf8e3a37c10ac",
        "3160dd86a7e6a420718f5904a4fe711906328428bc747505b44d20bf3ce7d5ea"),
    "optdigits": Source(28, 5620, 64, 10, 3823,
        "a5b2f9eb3671be2f2b91732531ae147859de6170843eee6f63f35bf3334729c8",
        "eb447a8087f092d22f26c20e90d7eef2c934263bd2eeadc84d3caffce226b704"),
    "segment": Source(36, 2310, 19, 7, 210,
        "ac0751dbe568afc2cea959f37a1823dd97a333eb3e00d99cd839e908d5208518",
        "7697b914d5d2ea06827ae9a5107d93ab29821e42d60686b4863de2aea85ce968"),
    "vehicle": Source(54, 846, 18, 4, None,
        "8df5711021469006812605b053c666e45661dc1d36811bc60086bdc7170cb192",
        "05e96dcaa159b3180da448d5eaf6ce298b130193f579d09058425d4598c5b03d"),
    "glass": Source(41, 214, 9, 6, None,
        "ad1b21cd745c8baa25dc32f811f67bfc071dcb5f8a87e0254d4d80b15d4275cd",
        "d507ed4f7f62c7490d1f5fa868182fb087ee83c50a84691b8f7c1fff59dde4ef"),
    "ecoli": Source(39, 336, 7, 8, None,
        "299964681d5834407029af35720f9c93a5fff91c1c8477a7c1a540aade4ec21f",
        "48c4ed70d5309b9593756cd67cd363a660b9eb759dbfe42c1cafab8ff3ab35e6"),
}
# fmt: on


def _fetch(data_id: int) -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml

    found = fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", cache=False)
    return found.data, found.target


def get_data(
    name: str,
    folder: Path | None = None,
    fetch: Callable[[int], tuple[Any, Any]] = _fetch,
    sources: Mapping[str, Source] = SOURCES,
) -> Path:
    """Download a data set, check it, and write ``NAME.npz``.

    Parameters
    ----------
    name : str
        One of ``sources``.
    folder : Path or None
        Where the archive goes; None: the folder that experiments look into.
    fetch : callable
        Gets the OpenML number, returns features and labels.
    sources : mapping of str to Source
        The sets that are known.

    Returns
    -------
    Path
        Of the archive.  Nothing is written unless every check holds.
    """
    if name not in sources:
        raise MissingDataError(
            f"no download of {name!r} is known; known are {', '.join(sources)}. Put {name}.npz "
            "with X and y into the folder POLYMARGIN_DATA_DIR"
        )
    source = sources[name]
    target = (folder or download_folder()) / f"{name}.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        X, y = fetch(source.data_id)
    except OSError as error:
        raise MissingDataError(
            f"OpenML cannot be reached ({' '.join(str(error).split())}): put {name}.npz with X "
            f"({source.rows} x {source.features}) and y into the folder POLYMARGIN_DATA_DIR or "
            f"into {target.parent}"
        ) from error
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    _check(name, source, X, y)
    arrays: dict[str, np.ndarray] = {"X": X.astype(np.float32), "y": y.astype(str)}
    if source.n_train is not None:
        arrays["train_idx"] = np.arange(source.n_train)
        arrays["test_idx"] = np.arange(source.n_train, source.rows)
    with atomic_file(target) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return target


def _check(name: str, source: Source, X: np.ndarray, y: np.ndarray) -> None:
    """Refuse a set that is not the one meant."""
    sizes = (*X.shape, len(np.unique(y)))
    if sizes != (source.rows, source.features, source.classes):
        raise MissingDataError(
            f"OpenML's {name} (number {source.data_id}) has {sizes[0]} rows, {sizes[1]} features, "
            f"{sizes[2]} classes; wanted are {source.rows}, {source.features}, {source.classes}. "
            "Nothing was written"
        )
    if source.n_train is not None and ordered_digest(X, y) != source.ordered:
        raise MissingDataError(
            f"OpenML's {name} (number {source.data_id}) is not row by row the original file "
            "(SHA-256 differs), so its official split is unknown. Nothing was written"
        )
    if unordered_digest(X, y) != source.unordered:
        raise MissingDataError(
            f"OpenML's {name} (number {source.data_id}) has other rows than the copy that the "
            "experiments were made with (SHA-256 differs). Nothing was written"
        )
