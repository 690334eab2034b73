"""The machine to train: its options, and the estimator made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import click

from polymargin.problem.titles import TITLES

__all__ = ["MACHINES", "MachineSetup", "take_machine_setup"]


MACHINES = {
    "MP": "multi-prototype SVM",
    **{name.upper(): title for name, title in TITLES.items()},
    "HULL": "convex-hull prototypes (AD-SVM)",
}
AUTO = "AUTO"
DEFAULT_PROTOTYPES = 5
MOST_ROWS = 60_000  # on which the multi-prototype machine is trained unless asked otherwise


@dataclass
class MachineSetup:
    """Everything that decides what is trained; None where a choice is left open."""

    machine: str
    prototypes: Any
    C: Any
    kernel: str
    gamma: Any
    degree: float
    coef0: float
    tol: float | None
    bias: float | None
    intercept: str | None
    eta: Any
    class_weight: str | None
    restarts: int
    annealing: str
    assignment: str
    metric: str
    cache_mb: float
    scale: str
    max_time: float | None
    rows: Any
    seed: int
    jobs: int
    eta_scale: str = "absolute"
    init: str = "auto"
    solver: str = "auto"
    offset: str = "center"
    plan: Any = None  # of the columns of a table that is no matrix
    objective: str = "accuracy"
    prefer: str = "accurate"
    budget: Any = None
    landmarks: Any = None
    cost: str | None = None  # file of --cost
    costs: Any = None  # its costs in the order of the classes of the data

    @property
    def is_auto(self) -> bool:
        return self.machine == AUTO

    @property
    def is_hull(self) -> bool:
        return self.machine == "HULL"

    @property
    def is_prototypes(self) -> bool:
        return self.machine == "MP"

    @property
    def leaves_C_open(self) -> bool:
        """Whether no value of C was given, alone or in a list."""
        return self.C in ("auto", ["auto"])

    @property
    def has_choice(self) -> bool:
        """Whether something is left to be picked on a validation part."""
        return self.eta is None if self.is_hull else self.C == "auto"

    @property
    def validates(self) -> bool:
        """Whether a training without folds looks at validation rows."""
        return self.is_auto or self.has_choice

    def estimator(self, **changes: Any) -> Any:
        """An estimator; ``changes`` of C, gamma, n_prototypes or eta."""
        kernel: dict[str, Any] = {
            "kernel": self.kernel,
            "gamma": _one(self.gamma),
            "degree": self.degree,
            "coef0": self.coef0,
            "cache_mb": self.cache_mb,
            "n_jobs": self.jobs,
            "max_time": self.max_time,
        }
        if self.tol is not None:
            kernel["tol"] = self.tol
        if self.is_hull:
            from polymargin.estimators.convex_hull import ConvexHullSVC

            kernel["eta"] = 1.0 if self.eta is None else _one(self.eta)
            kernel["eta_scale"] = self.eta_scale
            kernel["offset"] = self.offset
            kernel["solver"] = self.solver.replace("-", "_")
            return ConvexHullSVC(**(kernel | changes))
        common = kernel | self._intercept() | {
            "C": 1.0 if _one(self.C) == "auto" else _one(self.C),
            "class_weight": self.class_weight,
            "random_state": self.seed,
            "solver": self._solver(),
        }  # fmt: skip
        if self.costs is not None:
            common["cost_matrix"] = self.costs.matrix
        if self.is_prototypes:
            from polymargin.estimators.multi_prototype import MultiPrototypeSVC

            prototypes = {
                "n_prototypes": _one(self.prototypes),
                "n_restarts": self.restarts,
                "annealing": self.annealing,
                "assignment": self.assignment,
                "metric": self.metric,
                "init": self.init,
            }
            return MultiPrototypeSVC(**(common | prototypes | changes))
        from polymargin.estimators.multiclass import MulticlassSVC

        own = {"machine": self.machine.lower(), "landmarks": self._landmarks()}
        return MulticlassSVC(**(common | own | changes))

    def _landmarks(self) -> Any:
        """A whole number from 1 on, a fraction below, or a word."""
        whole = isinstance(self.landmarks, float) and self.landmarks >= 1
        return int(self.landmarks) if whole else self.landmarks

    def loss(self, said: Any, truth: Any) -> float:
        """What validation compares: the share of errors, or the mean cost where there are costs."""
        if self.costs is not None:
            return float(self.costs.mean(said, truth))
        return float((said != truth).mean()) if len(truth) else 0.0

    def loss_words(self, value: float) -> str:
        """A loss as text."""
        return f"{100 * value:.2f} %" if self.costs is None else f"mean cost {value:.4g}"

    def _solver(self) -> Any:
        """A word, or PATTERN,SELECTION,THRESHOLD as a member of the SMO-like family."""
        if "," not in self.solver:
            return self.solver
        from polymargin.solvers.smo.pattern_smo import PatternSMO

        names = ("pattern", "selection", "threshold")
        parts: list[Any] = [part.strip() for part in self.solver.split(",", 2)]
        return PatternSMO(**dict(zip(names, parts, strict=False)))

    def _intercept(self) -> dict[str, Any]:
        """liblinear's -B: a constant feature of that value, none if it is not above 0."""
        if self.bias is None:
            return {"intercept": self.intercept or "auto"}
        if self.bias <= 0:
            return {"intercept": "none"}
        return {"intercept": "penalized", "intercept_scaling": self.bias}

    def words(self) -> str:
        """The setup as text."""
        if self.is_auto:
            return "machine chosen by validation"
        text = MACHINES[self.machine]
        if self.is_prototypes and not isinstance(self.prototypes, list):
            text += f", {self.prototypes} prototypes per class"
        return f"{text}, {self.kernel} kernel"


def _one(value: Any) -> Any:
    """The first of several values."""
    return value[0] if isinstance(value, list) else value


_OF_MACHINES = (
    *("prototypes", "C", "kernel", "gamma", "degree", "coef0", "bias", "intercept", "eta"),
    *("restarts", "annealing", "assignment", "metric", "cache_mb", "init", "solver", "offset"),
    "landmarks",
    "cost",
)
_WITH_COSTS = ("MP", "CS", "WW")
_OF_AUTO = ("objective", "prefer", "budget")


def _machine(options: dict[str, Any]) -> str:
    """The machine asked for; without -m AUTO, or MP where options of a machine are given."""
    ctx = click.get_current_context()
    by_hand = click.core.ParameterSource.COMMANDLINE
    flags = {param.name: param.opts[0] for param in ctx.command.params}
    given = [flags[n] for n in _OF_MACHINES if ctx.get_parameter_source(n) == by_hand]
    machine = str(options["machine"] or ("MP" if given else AUTO)).upper()
    if machine == AUTO and given:
        raise click.UsageError(f"{given[0]} is for a named machine; -m auto chooses itself.")
    asked = [flags[n] for n in _OF_AUTO if ctx.get_parameter_source(n) == by_hand]
    if machine != AUTO and asked:
        raise click.UsageError(f"{asked[0]} is for -m auto, not for -m {machine}.")
    if options.get("cost") is not None and machine not in _WITH_COSTS:
        raise click.UsageError(f"--cost is for -m {', '.join(_WITH_COSTS)}, not for -m {machine}.")
    return machine


def _check_landmarks(landmarks: Any, kernel: str, machine: str) -> None:
    if landmarks is None:
        return
    if machine in ("MP", "HULL"):
        raise click.UsageError(
            f"--landmarks is for machines with one prototype per class (-m CS), not -m {machine}."
        )
    if kernel == "linear":
        raise click.UsageError("--landmarks is for a kernel with a width: add -k rbf.")
    if isinstance(landmarks, float) and landmarks > 1 and landmarks != int(landmarks):
        raise click.UsageError(f"--landmarks must be a whole number or a part, got {landmarks:g}.")


def take_machine_setup(options: dict[str, Any]) -> MachineSetup:
    """Remove the options of the machine from all options; refuse those that do not fit together."""
    machine = _machine(options)
    if options["metric"] != "euclidean" and machine != "MP":
        raise click.UsageError(f"--metric is for -m MP, not for -m {machine}.")
    if options["prototypes"] is not None and machine != "MP":
        raise click.UsageError(f"-p/--prototypes is for -m MP; -m {machine} has one per class.")
    if options["eta"] is not None and machine != "HULL":
        raise click.UsageError("--eta is for -m HULL.")
    if options["offset"] != "center" and machine != "HULL":
        raise click.UsageError("--offset is for -m HULL.")
    _check_landmarks(options["landmarks"], options["kernel"], machine)
    if options["init"] != "auto" and machine != "MP":
        raise click.UsageError(f"--init is for -m MP, not for -m {machine}.")
    if machine == "HULL" and options["C"] not in ("auto", ["auto"]):
        raise click.UsageError("-c/--C: convex hulls have no C; use --eta.")
    if options["bias"] is not None and options["intercept"] is not None:
        raise click.UsageError("-B and --intercept exclude each other.")
    if options["bias"] is not None and not math.isfinite(options["bias"]):
        raise click.UsageError("-B must be a finite number.")
    if options["jobs"] == 0:
        raise click.UsageError("--jobs must be -1 or at least 1.")
    if options["class_weight"] == "none":
        options["class_weight"] = None
    if options["prototypes"] is None:
        options["prototypes"] = DEFAULT_PROTOTYPES
    options["machine"] = machine
    names = [name for name in MachineSetup.__dataclass_fields__ if name in options]
    return MachineSetup(**{name: options.pop(name) for name in names})
