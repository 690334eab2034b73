"""AutoSVC: what it chooses, what it keeps, what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
from auto_cases import HOURS, LINEAR, overlapping
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_circles
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import AutoSVC, export_model, load, render_report, save


def exempted(estimator):
    reason = "an example of weight two stands in one fold, its two copies may stand in two"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@parametrize_with_checks(
    [AutoSVC(n_candidates=2, cv=2, random_state=0)], expected_failed_checks=exempted
)
def test_estimator_check(estimator, check):
    check(estimator)


# -- what it chooses ---------------------------------------------------------------------------


def test_rings_get_a_kernel():
    X, y = make_circles(300, noise=0.08, factor=0.5, random_state=0)
    model = AutoSVC(n_candidates=8, budget=HOURS, random_state=0).fit(X[:200], y[:200])
    assert model.best_params_["kernel"] == "rbf"
    assert model.score(X[200:], y[200:]) > 0.95


def test_overlapping_classes_do_not_collapse():
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=900)
    X = 0.4 * rng.normal(size=(6, 8))[y] + rng.normal(size=(900, 8))
    model = AutoSVC(n_candidates=8, machines=("linear", "rbf"), budget=HOURS, random_state=0)
    model.fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > 0.3  # guessing gives 0.17


def test_scaling_makes_the_choice_independent_of_units():
    X, y = overlapping()
    units = np.array([1e-6, 1.0, 1e3, 1e6, 10.0, 0.1])
    plain = AutoSVC(**LINEAR).fit(X, y)
    scaled = AutoSVC(**LINEAR).fit(X * units + 5.0, y)
    assert plain.best_params_ == pytest.approx(scaled.best_params_)
    assert np.mean(plain.predict(X) == scaled.predict(X * units + 5.0)) > 0.97  # up to tol


def test_equal_seeds_give_equal_models_with_any_number_of_threads():
    X, y = overlapping()
    first = AutoSVC(n_candidates=5, budget=HOURS, random_state=3).fit(X, y)
    second = AutoSVC(n_candidates=5, budget=HOURS, random_state=3, n_jobs=2).fit(X, y)
    assert first.best_params_ == second.best_params_
    assert first.tried_["verdict"] == second.tried_["verdict"]
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))


def test_small_takes_the_smallest_within_one_standard_error():
    X, y = overlapping(300)
    model = AutoSVC(n_candidates=8, prefer="small", budget=HOURS, random_state=0).fit(X, y)
    tried = model.tried_
    last = max(tried["train_rows"])
    final = [
        k
        for k, verdict in enumerate(tried["verdict"])
        if verdict in ("chosen", "close") and tried["train_rows"][k] == last
    ]
    best = max(final, key=lambda k: tried["score"][k])
    floor = tried["score"][best] - tried["standard_error"][best]
    good = [k for k in final if tried["score"][k] >= floor - 1e-12]
    assert tried["score"][0] >= floor - 1e-12
    assert tried["model_bytes"][0] == min(tried["model_bytes"][k] for k in good)


def test_balanced_accuracy_finds_the_rare_class():
    rng = np.random.default_rng(1)
    y = (rng.random(600) < 0.06).astype(int)
    X = rng.normal(size=(600, 4)) + 0.9 * y[:, None]
    parts = train_test_split(X, y, random_state=0, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plain machine may leave the rare class out
        plain = AutoSVC(**LINEAR).fit(parts[0], parts[2])
        fair = AutoSVC(**LINEAR, objective="balanced_accuracy").fit(parts[0], parts[2])
    of = [balanced_accuracy_score(parts[3], m.predict(parts[1])) for m in (plain, fair)]
    assert of[1] > of[0] + 0.05


def test_probabilities_whatever_the_objective():
    X, y = load_iris(return_X_y=True)
    model = AutoSVC(**LINEAR, probabilities="temperature").fit(X, y)
    P = model.predict_proba(X)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    assert log_loss(y, P) < 0.5
    assert not hasattr(AutoSVC(), "predict_proba")
    with pytest.raises(ValueError, match="probabilities must be None or 'temperature'"):
        AutoSVC(probabilities="platt").fit(X, y)


def test_log_loss_gives_probabilities_better_than_the_class_frequencies():
    X, y = overlapping(400)
    model = AutoSVC(**LINEAR, objective="log_loss").fit(X[:250], y[:250])
    P = model.predict_proba(X[250:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[250:]))
    assert log_loss(y[250:], P) < 0.9 * np.log(3)
    assert not hasattr(AutoSVC(), "predict_proba")


def test_groups_stay_together():
    # every speaker has one label and a voice of its own: rows of a known speaker tell the label
    rng = np.random.default_rng(0)
    speaker = np.repeat(np.arange(30), 8)
    y = rng.integers(2, size=30)[speaker]
    X = rng.normal(size=(30, 5))[speaker] + 0.05 * rng.normal(size=(240, 5))
    plain = AutoSVC(machines="rbf", n_candidates=2, budget=HOURS, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grouped = AutoSVC(machines="rbf", n_candidates=2, budget=HOURS, random_state=0).fit(
            X, y, groups=speaker
        )
    assert plain.best_score_ > 0.95
    assert grouped.best_score_ < 0.75


def test_groups_that_look_alike_inside_are_told():
    rng = np.random.default_rng(0)
    who = np.arange(300) % 30
    X = rng.normal(size=(30, 4))[who] + 0.1 * rng.normal(size=(300, 4))
    y = rng.integers(2, size=30)[who]
    options = {"machines": "rbf", "n_candidates": 2, "cv": 3, "budget": HOURS, "random_state": 0}
    with pytest.warns(UserWarning, match="groups: rows of new groups are classified far worse"):
        AutoSVC(**options).fit(X, y, groups=who)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AutoSVC(**options).fit(X, y, groups=rng.integers(30, size=300))
    assert not [w for w in caught if "new groups" in str(w.message)]


def test_unused_prototypes_are_pruned():
    X, y = overlapping(200)
    options = {"machines": "prototypes", "n_candidates": 1, "cv": 2, "budget": HOURS}
    model = AutoSVC(**options, random_state=0).fit(X, y).best_estimator_[-1]
    assert model.alive_.all()
    assert len(model.prototypes_) == len(model.prototype_classes_)


# -- difficult tables --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1] * 10),
        np.arange(20) % 10,  # two of each
        np.arange(20),  # one of each: nothing to validate with
        np.array([0] * 19 + [1]),
        np.array(list("aaaaaaaabbbbbbbbcccd")),
    ],
    ids=["two", "pairs", "singletons", "one against all", "rare"],
)
def test_twenty_rows(y):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = AutoSVC(n_candidates=4, random_state=0).fit(X, y)
    assert set(model.predict(X)) <= set(y)
    assert model.certificate_.relative_gap <= 1e-2


def test_many_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 4)
    X = 3.0 * rng.normal(size=(300, 12))[y] + rng.normal(size=(1200, 12))
    model = AutoSVC(machines="linear", n_candidates=1, random_state=0).fit(X, y)
    assert len(model.classes_) == 300
    assert model.score(X, y) > 0.8


def test_constant_features_and_large_tables_are_sampled():
    rng = np.random.default_rng(0)
    y = np.arange(21_000) % 2
    X = rng.normal(size=(21_000, 3))
    X[:, 0] += 4.0 * y  # a table so large takes minutes where classes are not apart
    X[:, 2] = 7.0
    model = AutoSVC(machines="rbf", n_candidates=2, budget=HOURS, random_state=0).fit(X, y)
    assert max(model.tried_["train_rows"]) == pytest.approx(8_000, abs=3)  # 4/5 of 10,000
    assert abs(model.n_rows_ - 20_000) <= 3
    linear = AutoSVC(**LINEAR).fit(X, y)
    assert linear.n_rows_ == 21_000


def test_sparse_input_is_not_scaled():
    X, y = overlapping()
    X = sparse.csr_matrix(np.where(X > 0.5, X, 0.0))
    model = AutoSVC(**LINEAR).fit(X, y)
    assert not hasattr(model.best_estimator_, "steps")
    assert model.score(X, y) > 0.5


def test_rows_without_weight_do_not_count():
    X, y = overlapping()
    weight = np.ones(len(y))
    weight[150:] = 0.0
    X[150:] = 1e6
    weighted = AutoSVC(**LINEAR).fit(X, y, sample_weight=weight)
    without = AutoSVC(**LINEAR).fit(X[:150], y[:150], sample_weight=np.ones(150))
    np.testing.assert_array_equal(
        weighted.decision_function(X[:150]), without.decision_function(X[:150])
    )


def test_a_class_that_is_never_predicted_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(rng.random(300) < 0.1, "rare", "common")
    with pytest.warns(UserWarning, match="never predicted 'rare'"):
        AutoSVC(**LINEAR).fit(X, y)


def test_numbers_too_large_to_be_squared_are_refused_by_column():
    X, y = overlapping(60)
    X[:, 1] *= 1e200
    with pytest.raises(ValueError, match=r"feature 1 has values up to .*e\+200, whose squares"):
        AutoSVC(n_candidates=1).fit(X, y)


def test_what_nobody_validated_is_not_called_close():
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoSVC(random_state=0).fit(X, y)
    assert set(model.tried_["verdict"]) == {"not tried: too few rows"}


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "f1"}, "objective must be one of"),
        ({"prefer": "cheap"}, "prefer must be one of"),
        ({"scale": "minmax"}, "scale must be one of"),
        ({"machines": "precomputed"}, "precomputed kernel"),
        ({"machines": ("tree",)}, "machines must be"),
        ({"machines": ()}, "machines must be"),
        ({"cv": 1}, "cv must be"),
        ({"cv": "five"}, "cv must be"),
        ({"budget": 0}, "budget must be"),
        ({"max_time": -1}, "max_time must be"),
        ({"n_candidates": 0}, "n_candidates must be"),
        ({"tol": 0}, "tol must be"),
    ],
)
def test_refusals_are_one_line(parameters, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message) as caught:
        AutoSVC(**parameters).fit(X, y)
    assert "\n" not in str(caught.value)


def test_groups_are_checked():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="groups: all rows"):
        AutoSVC().fit(X, y, groups=np.zeros(150))
    with pytest.raises(ValueError, match="inconsistent"):
        AutoSVC().fit(X, y, groups=np.zeros(149))


# -- the fitted object -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return AutoSVC(n_candidates=4, budget=HOURS, random_state=0).fit(X, names), X, names


def test_pickle_clone_save_and_load_predict_the_same(fitted, tmp_path):
    model, X, y = fitted
    save(model, tmp_path / "auto.model")
    for other in (pickle.loads(pickle.dumps(model)), load(tmp_path / "auto.model")):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
        for name in model.tried_.keys() - {"seconds"}:  # which a file leaves out
            assert other.tried_[name] == model.tried_[name]
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_export_and_report_see_through_it(fitted, tmp_path):
    model, X, y = fitted
    assert export_model(model, tmp_path / "auto.json").bytes > 0
    assert export_model(model, tmp_path / "auto.h").bytes > 0
    assert "virginica" in render_report(model, X, y)


def test_table_shows_the_choice_first(fitted):
    model, *_ = fitted
    lines = model.table().splitlines()
    assert "right %" in lines[0]
    assert lines[1].endswith("chosen")
    assert len(lines) == 1 + len(model.tried_["machine"])
    assert len(model.table(rows=2).splitlines()) == 3
    assert {len(column) for column in model.tried_.values()} == {len(lines) - 1}


def test_reject_option_and_scores_agree_with_predict(fitted):
    model, X, _ = fitted
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    rejected = model.predict_or_reject(X, margin=1e9, reject_label="?")
    assert set(rejected) == {"?"}
