"""Progress of the machines whose dual point is a matrix of signed variables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.certificate.certificate import Judgement, certify
from polymargin.certificate.judge import judge_machine
from polymargin.solvers.run import Progress, Solution

__all__ = ["MachineProgress"]


class MachineProgress(Progress):
    """Progress of a machine whose dual point is a matrix of signed variables."""

    hint: np.ndarray | None = None

    def judged(self, support: np.ndarray, tau: np.ndarray) -> Judgement:
        return judge_machine(self.problem, support, tau, self.hint)

    def uncertified(self, tau: np.ndarray) -> Judgement:
        dual = max((check.dual for check in self.history.checks), default=0.0)
        certificate = certify(np.inf, max(dual, 0.0), self.problem.kernel_psd)
        b = np.zeros(self.problem.n_prototypes) if self.hint is None else self.hint
        unique = False if self.problem.has_free_bias else None
        return Judgement(certificate, None, b, -np.inf, 0.0, 1.0, unique)

    def finish(
        self, status: str, support: np.ndarray, tau: np.ndarray, judgement: Judgement | None = None
    ) -> Solution:
        """As ever, with the coefficients T in place of the signed variables."""
        found = super().finish(status, support, tau, judgement)
        machine, own = self.problem.machine, self.problem.own[found.support]
        T = machine.coefficients(found.tau, own)
        judged = found.judgement
        if judged.certificate.primal == np.inf and judged.W is None:
            intercept = judged.intercept + self.problem.kernel.offset * T.sum(axis=0)
            found.judgement = replace(judged, intercept=intercept)
        return replace(found, tau=T)
