"""The record behind all formats: it says what the estimator says, or why it cannot."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_overlapping
from export_tools import class_scores
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from polymargin import (
    MACHINES,
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
)
from polymargin.export import ExportModel

X, Y = make_overlapping()
MODELS = {
    "cs": MulticlassSVC(C=0.5),
    "cs free": MulticlassSVC(C=0.5, intercept="free"),
    "cs none": MulticlassSVC(C=0.5, intercept="none"),
    "ww": MulticlassSVC("ww", C=0.5),
    "llw": MulticlassSVC("llw", C=0.5),
    "msvm2": MulticlassSVC("msvm2", C=0.5),
    "mmr": MulticlassSVC("mmr", C=0.5, intercept="penalized"),
    "rbf": MulticlassSVC(kernel="rbf"),
    "rbf free": MulticlassSVC("ww", kernel="rbf"),
    "poly": MulticlassSVC(kernel="poly", coef0=1.0, degree=2),
    "sigmoid": MulticlassSVC(kernel="sigmoid", gamma=0.01, max_iter=20),
    "prototypes": MultiPrototypeSVC(2, C=0.5, random_state=0),
    "one prototype": MultiPrototypeSVC(1, C=0.5, random_state=0),
    "rbf prototypes": MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    "hull": ConvexHullSVC(eta=0.2),
    "hull kkt": ConvexHullSVC(eta=0.2, offset="kkt"),
    "linear hull": ConvexHullSVC(eta=0.2, kernel="linear"),
    "linear hull kkt": ConvexHullSVC(eta=0.2, kernel="linear", offset="kkt"),
}
SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 2)),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_model(name, two):
    y = Y % 2 if two else Y
    model = MODELS[name].fit(X, y)
    record = ExportModel.from_estimator(model)
    np.testing.assert_allclose(record.scores(X), class_scores(model, X), atol=1e-9)
    assert record.labels == tuple(model.classes_.tolist())
    kinds = {"hull": "hull", "rbf": "kernel", "poly": "kernel", "sigmoid": "kernel"}
    expected = next((kind for word, kind in kinds.items() if word in name), None)
    expected = expected or ("prototypes" if "proto" in name else "linear")
    assert record.kind == expected


@pytest.mark.parametrize("scaler", SCALERS, ids=repr)
def test_scalers(scaler):
    model = make_pipeline(scaler, MulticlassSVC(C=0.1)).fit(X + 3.0, Y)
    outside = 3.0 * X + 1.0  # beyond the range of training, where limits act
    found = ExportModel.from_estimator(model).scores(outside)
    np.testing.assert_allclose(found, class_scores(model, outside), atol=1e-9)


@pytest.mark.parametrize("nested", [False, True])
def test_chain_of_scalers_with_limits(nested):
    steps = [MinMaxScaler(clip=True), StandardScaler(), MinMaxScaler((0.1, 0.7), clip=True)]
    steps = [make_pipeline(*steps)] if nested else [*steps, "passthrough"]
    model = make_pipeline(*steps, MulticlassSVC()).fit(X, Y)
    found = ExportModel.from_estimator(model).scores(4.0 * X)
    np.testing.assert_allclose(found, class_scores(model, 4.0 * X), atol=1e-9)


def test_searches_give_their_winner():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MulticlassSVC()), {"multiclasssvc__C": [1]}
    )
    search.fit(X, Y)
    best = ExportModel.from_estimator(search.best_estimator_)
    np.testing.assert_array_equal(ExportModel.from_estimator(search).vectors, best.vectors)
    inner = make_pipeline(StandardScaler(), GridSearchCV(MulticlassSVC(), {"C": [1.0]})).fit(X, Y)
    found = ExportModel.from_estimator(inner).scores(X)
    np.testing.assert_allclose(found, class_scores(inner, X), atol=1e-9)
    chosen = MultiPrototypeSVCCV((1, 2), Cs=[0.1], cv=2, random_state=0).fit(X, Y)
    found = ExportModel.from_estimator(chosen).scores(X)
    np.testing.assert_allclose(found, class_scores(chosen, X), atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sparse_training_gives_the_same_record(kernel):
    dense = MulticlassSVC(kernel=kernel, gamma=0.1, random_state=0).fit(X, Y)
    thin = MulticlassSVC(kernel=kernel, gamma=0.1, random_state=0).fit(sparse.csr_array(X), Y)
    a, b = ExportModel.from_estimator(dense), ExportModel.from_estimator(thin)
    assert isinstance(b.vectors, np.ndarray)
    np.testing.assert_allclose(b.scores(sparse.csr_array(X)), a.scores(X), atol=1e-2)
    np.testing.assert_allclose(b.scores(X), class_scores(thin, X), atol=1e-9)
    np.testing.assert_allclose(b.mean, thin.support_vectors_.toarray().mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(b.spread, thin.support_vectors_.toarray().std(axis=0), atol=1e-9)


def test_feature_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcde"))
    model = make_pipeline(StandardScaler(), MulticlassSVC()).fit(table, Y)
    assert ExportModel.from_estimator(model).feature_names == tuple("abcde")
    assert ExportModel.from_estimator(MulticlassSVC().fit(X, Y)).feature_names is None
    search = GridSearchCV(MulticlassSVC(), {"C": [1.0]}).fit(table, Y)
    assert ExportModel.from_estimator(search).feature_names == tuple("abcde")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (np.array(["b", "a", "d", "c"]), "str"),
        (np.array(["b", "a", "d", "c"], dtype=object), "str"),
        (np.array([3, -1, 7, 2]), "int"),
        (np.array([3, 1, 7, 2], dtype=np.uint8), "int"),
        (np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32), "float"),
        (np.array([True, False, True, False]), "bool"),
    ],
)
def test_labels(labels, kind):
    record = ExportModel.from_estimator(MulticlassSVC().fit(X, labels[Y]))
    assert record.label_type == kind
    assert record.labels == tuple(np.unique(labels).tolist())
    assert all(type(one) in (int, float, bool, str) for one in record.labels)


def test_certificate_travels():
    model = MulticlassSVC().fit(X, Y)
    record = ExportModel.from_estimator(model)
    assert record.metadata["certificate"]["relative_gap"] == model.certificate_.relative_gap
    assert record.metadata["machine"] == "cs"
    own = replace(MACHINES["ww"], name="mine")
    assert ExportModel.from_estimator(MulticlassSVC(own).fit(X, Y)).metadata["machine"] == "mine"


def test_no_support_vectors():
    model = MulticlassSVC(kernel="rbf").fit(X, Y)
    model.support_vectors_, model.dual_coef_ = np.empty((0, 5)), np.empty((0, 4))
    record = ExportModel.from_estimator(model)
    assert record.vectors.shape == (1, 5)
    assert not record.scores(X).any()


def test_refusals():
    broken = MulticlassSVC().fit(X, Y)
    broken.coef_ = broken.coef_ * np.nan
    with pytest.raises(ValueError, match="finite"):
        ExportModel.from_estimator(broken)
    with pytest.raises(ValueError, match="precomputed"):
        ExportModel.from_estimator(MulticlassSVC(kernel="precomputed").fit(X @ X.T, Y))
    with pytest.raises(ValueError, match="callable"):
        ExportModel.from_estimator(MulticlassSVC(kernel=lambda a, b: a @ b.T).fit(X, Y))
    with pytest.raises(NotFittedError):
        ExportModel.from_estimator(MulticlassSVC())
    with pytest.raises(NotFittedError):
        ExportModel.from_estimator(GridSearchCV(MulticlassSVC(), {"C": [1.0]}))
    for step in (PCA(2), QuantileTransformer(n_quantiles=10)):
        with pytest.raises(ValueError, match=f"{type(step).__name__}.*skl2onnx"):
            ExportModel.from_estimator(make_pipeline(step, MulticlassSVC()).fit(X, Y))
    with pytest.raises(ValueError, match="LogisticRegression"):
        ExportModel.from_estimator(LogisticRegression().fit(X, Y))
    with pytest.raises(ValueError, match="last step"):
        ExportModel.from_estimator(make_pipeline(StandardScaler(), "passthrough").fit(X, Y))
    wide = MulticlassSVC(kernel="rbf").fit(sparse.csr_array(X), Y)
    wide.support_vectors_ = sparse.csr_array((60, 10_000_000))
    with pytest.raises(ValueError, match="GB"):
        ExportModel.from_estimator(wide)


def test_one_width_per_feature():
    """Widths become a scale of the features; every format then has a plain RBF kernel."""
    X, y = load_iris(return_X_y=True)
    widths = np.array([0.1, 0.5, 1.0, 2.0])
    model = make_pipeline(StandardScaler(), MulticlassSVC(kernel="rbf", gamma=widths)).fit(X, y)
    record = ExportModel.from_estimator(model)
    assert record.gamma == 1.0
    np.testing.assert_allclose(record.scores(X), model.decision_function(X), atol=1e-9)
