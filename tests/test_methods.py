"""The table of methods: a solver of one's own is registered, driven, judged and stored."""

import numpy as np
import pytest
from conftest import make_overlapping

from polymargin import MACHINES, MulticlassSVC
from polymargin.certificate.objective import merit, values_of_sums
from polymargin.estimators.fitted import store
from polymargin.problem.kernels import Kernel
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers import METHODS, MethodRow, find_method, register_method, solve
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.run import Run, Stop

TOL = 0.05


class ToyFrankWolfe(Method):
    """Frank-Wolfe on (1.2): every pattern towards its most violating rival, exact line search."""

    def __init__(self, problem, start):
        n, Q = problem.n_patterns, problem.n_prototypes
        self.problem, self.rows = problem, np.arange(n)
        self.K = problem.gram(self.rows, self.rows)
        self.V = np.zeros((n, Q)) if start is None else start.dense(problem)

    def start(self, progress):
        self.progress = progress

    def coefficients(self, V):
        return self.problem.machine.coefficients(V, self.problem.own)

    def check(self):
        problem, T = self.problem, self.coefficients(self.V)
        self.scores = self.K @ T
        norm2 = float((T * self.scores).sum())
        rivals = self.scores.copy()
        rivals[self.rows, problem.own] = -np.inf
        self.best = rivals.argmax(axis=1)
        margins = self.scores[self.rows, problem.own] - rivals.max(axis=1)
        loss = float(problem.cap @ np.maximum(0.0, 1.0 - margins))
        self.violates = margins < 1.0
        primal, dual = values_of_sums(problem, norm2, loss, -float(self.V.sum()), margins.min())
        return Checked(primal, dual, merit(primal, margins.min(), norm2), len(T))

    def advance(self, checked):
        problem = self.problem
        vertex = np.zeros_like(self.V)
        vertex[self.rows, self.best] = -np.where(self.violates, problem.cap, 0.0)
        d = vertex - self.V
        T = self.coefficients(d)
        slope = -float(d.sum()) - float((T * self.scores).sum())
        curvature = float((T * (self.K @ T)).sum())
        length = min(1.0, slope / curvature) if curvature > 0.0 else 1.0
        self.V += length * d
        self.progress.iterations += 1
        self.progress.steps += 1
        return length > 0.0

    def point(self):
        return DualPoint.from_dense(self.problem, np.minimum(self.V, 0.0))


def why_not(problem):
    is_plain = problem.machine.is_crammer_singer and not problem.has_free_bias
    return None if is_plain else "knows plain Crammer-Singer only"


@pytest.fixture
def toy():
    row = MethodRow(
        "toy", why_not, lambda problem, run, start, options: ToyFrankWolfe(problem, start)
    )
    register_method(row)
    yield row
    del METHODS["toy"]


def make_problem(machine="cs", **facts):
    X, y = make_overlapping(n=60)
    kernel, caps = Kernel("rbf", gamma=0.3), np.full(60, 0.5)
    problem = Problem(
        MACHINES[machine], kernel, X, y, caps, y, np.arange(4), kernel_psd=True, **facts
    )
    return problem, X, y


def test_a_registered_method_is_driven_and_certified(toy):
    problem, X, y = make_problem()
    checks = []
    run = Run(Stop(TOL, 10_000), watchers=(lambda check, snapshot: bool(checks.append(check)),))
    found = solve(problem, run, method="toy")
    best = MulticlassSVC(kernel="rbf", gamma=0.3, C=0.5, tol=1e-8, random_state=0).fit(X, y)
    assert found.status == "converged"
    certificate = found.judgement.certificate
    assert certificate.relative_gap <= TOL
    assert certificate.dual <= best.certificate_.primal * (1 + 1e-9)
    assert certificate.primal >= best.certificate_.dual * (1 - 1e-9)
    assert found.iterations == len(checks) - 1
    duals = [check.dual for check in checks]
    assert (np.diff(duals) >= -1e-9 * abs(duals[-1])).all()


def test_it_goes_on_from_a_point_and_ends_when_told_to(toy):
    problem, *_ = make_problem()
    first = solve(problem, Run(Stop(1e-9, 20)), method="toy")
    assert first.status == "max_iter"
    again = solve(problem, Run(Stop(1e-9, 20)), first.start, method="toy")
    assert again.judgement.certificate.dual > first.judgement.certificate.dual
    stopped = solve(problem, Run(Stop(1e-9), watchers=(lambda *_: True,)), method="toy")
    assert stopped.status == "interrupted"
    assert stopped.iterations == 0


def test_its_solution_becomes_a_model(toy):
    problem, X, y = make_problem()
    solution = solve(problem, Run(Stop(TOL, 10_000)), method="toy")
    model = MulticlassSVC(kernel="rbf", gamma=0.3, C=0.5)
    ready = model._prepare(model._check_parameters(), X, y, None)
    store(model, solution, model._fitted_attributes(ready, problem))
    assert model.status_ == "converged"
    scores = problem.gram(np.arange(60), solution.support) @ solution.coefficients
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)


def test_methods_are_refused_with_a_reason(toy):
    problem, *_ = make_problem("ww")
    with pytest.raises(ValueError, match="plain Crammer-Singer only"):
        solve(problem, Run(Stop(TOL)), method="toy")
    with pytest.raises(ValueError, match="method must be 'auto' or one of"):
        solve(problem, Run(Stop(TOL)), method="nothing")
    assert find_method(problem).name == "block"
    assert find_method(make_problem()[0]).name == "working-set"


def test_a_part_of_a_run_shares_clock_and_interruption():
    run = Run(Stop(1e-3, 80, 100.0), seed=3, cache_mb=7.0)
    part = run.part(0.25, tol=0.1)
    assert (part.stop.tol, part.stop.max_iter, part.cache_mb, part.seed) == (0.1, 20, 7.0, 3)
    assert part.stop.max_time == pytest.approx(25.0, abs=5.0)
    assert part.clock.started == run.clock.started
    part.clock.interrupted = True
    assert run.why_end() == "interrupted"
    assert run.part().clock is run.clock


def test_a_problem_is_frozen():
    problem, *_ = make_problem()
    diagonal = problem.diagonal
    with pytest.raises(AttributeError):
        problem.cap = np.ones(60)
    other = problem.changed(cap=np.ones(60))
    assert other.diagonal is diagonal
    assert other.changed(kernel=Kernel("rbf", gamma=1.0)).diagonal is not diagonal
