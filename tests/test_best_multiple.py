"""Rounds of block descent on kernels: symmetric rows, the best multiple, patterns that leave."""

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping

from polymargin import MulticlassSVC
from polymargin.certificate.training_scores import TrainingScores
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem
from polymargin.solvers.best_multiple import BestMultiple
from polymargin.solvers.blocks import BlockDescent
from polymargin.solvers.kernel_rows import KernelRows


def make_problem(n, d, machine="cs", gamma=0.01, n_classes=3):
    X, y = make_overlapping(n, d, n_classes)
    kernel = Kernel("rbf", gamma)
    cap = np.full(n, 10.0)
    return Problem(MACHINES[machine], kernel, X, y, cap, y, np.arange(n_classes))


@pytest.mark.parametrize("d", [4, 70])
def test_rows_by_symmetry(d):
    """Long rows are computed up to the diagonal; the matrix is whole whatever the steps."""
    task = make_problem(700, d)
    rows = KernelRows(task, np.float64, 100.0)
    order = np.random.default_rng(0).permutation(700)
    K = ref.rbf(task.X, task.X, 0.01)
    for part in (order[:300], order[300:301], order[301:]):
        rows.grow(part)
        m = len(rows.ids)
        np.testing.assert_allclose(rows.rows[:m, :m], K[np.ix_(rows.ids, rows.ids)], atol=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_scores_by_symmetry(share):
    """The judge uses every kernel value between two support patterns twice."""
    task = make_problem(600, 5)
    rng = np.random.default_rng(1)
    support = np.sort(rng.choice(600, int(share * 600), replace=False))
    tau = rng.normal(size=(len(support), 3))
    source = TrainingScores(task, support, tau)
    found = np.concatenate([source.block(slice(i, i + 200)) for i in (0, 200, 400)], axis=1)
    K = ref.rbf(task.X, task.X[support], 0.01)
    np.testing.assert_allclose(found, (K @ tau).T, atol=1e-10)


@pytest.mark.parametrize("machine", ["ww", "llw"])
def test_best_multiple(machine, put_method):
    """A multiple that is taken lowers P, is feasible and balanced, and is taken back to the bit."""
    seen = []

    class Watched(BestMultiple):
        def take(self, descent):
            V, F, b = descent.blocks.V.copy(), descent.stage.F.copy(), descent.b.copy()
            descent.balance(descent.inside_scores())
            plain = primal(descent)
            descent.blocks.V[:], descent.stage.F[:], descent.b = V, F, b
            super().take(descent)
            if self.before is None:
                return
            point = descent.point()
            T = point.coefficients(descent.problem)
            assert np.abs(T.sum(axis=0)).max() <= 1e-9 * np.abs(T).sum()
            assert point.V.min() >= -descent.problem.cap.max()
            seen.append((primal(descent), plain))
            assert self.undo(descent)
            np.testing.assert_array_equal(descent.blocks.V, V)
            np.testing.assert_array_equal(descent.stage.F, F)
            super().take(descent)
            assert self.before is not None

    class Descent(BlockDescent):
        def open_stage(self, single):
            self.multiple = Watched()
            super().open_stage(single)

    put_method("block", Descent)
    X, y = make_overlapping(900, 5, 4, seed=3)
    model = MulticlassSVC(machine, kernel="rbf", gamma=0.5, C=1e3, tol=1e-3).fit(X, y)
    assert model.status_ == "converged"
    assert seen
    assert all(lifted < plain for lifted, plain in seen)


def primal(descent: BlockDescent) -> float:
    """P of the patterns of the set at the intercept of descent."""
    scores = descent.inside_scores()
    losses = descent.machine.loss(scores + descent.b, descent.blocks.own)
    norm2 = descent.stage.norm2(descent.blocks.V, scores)
    return 0.5 * norm2 + float(descent.blocks.rival_cap @ losses)


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
def test_trimmed_sets(machine, put_method):
    """Patterns far beyond their margins leave the set, and the optimum is that of all."""
    left = []

    class Watched(BlockDescent):
        def trim(self, inside):
            before = len(self.blocks.V)
            found = super().trim(inside)
            left.append(before - len(self.blocks.V))
            return found

    put_method("block", Watched)
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 3
    X = rng.normal(size=(1500, 2)) + 4.0 * np.eye(3, 2)[y]
    model = MulticlassSVC(machine, kernel="rbf", gamma=0.1, C=1.0, tol=1e-4).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-4
    assert max(left) > 0


@pytest.mark.parametrize("machine", ["llw", "msvm2"])
def test_the_sum_of_all_prototypes_is_settled_after_every_pass(machine, put_method):
    """Else scores grow to many times what they differ by, and single precision is lost."""
    largest = []

    class Watched(BlockDescent):
        def visit(self, *args, **more):
            found = super().visit(*args, **more)
            assert not self.stage.F[-1].any()
            assert not self.stage.constant[-1]
            largest.append(float(np.abs(self.stage.F).max()))
            return found

    put_method("block", Watched)
    X, y = make_overlapping(900, 5, 4, seed=3)
    model = MulticlassSVC(
        machine, kernel="rbf", gamma=0.1, C=1.0, intercept="penalized", tol=1e-3
    ).fit(X, y)
    assert model.status_ == "converged"
    own_scores = np.abs(model.decision_function(X)).max()
    assert max(largest[len(largest) // 2 :]) < 20.0 * own_scores


def test_a_stall_in_single_precision_ends_in_double(put_method, monkeypatch):
    """Checks near the end that do not lower the gap: the fit goes on with scores in double."""
    precisions = []

    class Watched(BlockDescent):
        def prepare(self, single):
            precisions.append(single)
            super().prepare(single)

    put_method("block", Watched)
    monkeypatch.setattr("polymargin.solvers.blocks._LESS", 0.0)
    monkeypatch.setattr("polymargin.solvers.blocks._STALLED", 2)
    X, y = make_overlapping(900, 5, 4, seed=3)
    model = MulticlassSVC("llw", kernel="rbf", gamma=0.5, C=1e3, tol=1e-3).fit(X, y)
    assert model.status_ == "converged"
    assert precisions == [True, False]
