"""What to train: the options of machines and kernels, and the estimators they ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

__all__ = ["MACHINES", "Recipe", "recipe_options", "take_recipe"]

Command = TypeVar("Command", bound=Callable[..., Any])

MACHINES = {
    "MP": "multi-prototype SVM",
    "CS": "Crammer-Singer",
    "WW": "Weston-Watkins",
    "LLW": "Lee-Lin-Wahba",
    "MSVM2": "M-SVM²",
    "ADM": "absolute margins, discriminative maximum",
    "ATM": "absolute margins, total maximum",
    "ATS": "absolute margins, total sum",
    "MMR": "maximum margin regression",
    "REINFORCED": "reinforced multi-category SVM",
    "HULL": "convex-hull prototypes (AD-SVM)",
}
KERNELS = ("linear", "rbf", "poly", "sigmoid")
SCALES = ("auto", "none", "standard", "minmax", "maxabs")
DEFAULT_PROTOTYPES = 5
MOST_ROWS = 60_000  # on which the multi-prototype machine is trained unless asked otherwise


class Number(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A number above a bound, one of some words, or (``many``) several with commas between."""

    name = "number"

    def __init__(self, words: tuple[str, ...] = (), whole: bool = False, many: bool = False):
        self.words, self.whole, self.many = words, whole, many

    def get_metavar(self, *unused: Any, **more: Any) -> str:
        """What the help shows."""
        one = "|".join(["N" if self.whole else "X", *self.words])
        return f"{one}[,{'N' if self.whole else 'X'}...]" if self.many else one

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Numbers and words, or a refusal."""
        if not isinstance(value, str):
            return value
        found = [self._one(text.strip(), param, ctx) for text in value.split(",")]
        if not self.many and len(found) > 1:
            self.fail(f"{value!r} is not one number.", param, ctx)
        return found if self.many else found[0]

    def _one(self, text: str, param: Any, ctx: Any) -> Any:
        if text in self.words:
            return text
        try:
            number = int(text) if self.whole else float(text)
        except ValueError:
            wanted = "a whole number" if self.whole else "a number"
            also = f" or {' or '.join(self.words)}" if self.words else ""
            self.fail(f"{text!r} is not {wanted}{also}.", param, ctx)
        if not number > 0:
            self.fail(f"{text} must be above 0.", param, ctx)
        return number


@dataclass
class Recipe:
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
    plan: Any = None  # of the columns of a table that is no matrix

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
            return ConvexHullSVC(**(kernel | changes))
        common = kernel | self._intercept() | {
            "C": 1.0 if _one(self.C) == "auto" else _one(self.C),
            "class_weight": self.class_weight,
            "random_state": self.seed,
        }  # fmt: skip
        if self.is_prototypes:
            from polymargin.estimators.multi_prototype import MultiPrototypeSVC

            prototypes = {
                "n_prototypes": _one(self.prototypes),
                "n_restarts": self.restarts,
                "annealing": self.annealing,
                "assignment": self.assignment,
                "metric": self.metric,
            }
            return MultiPrototypeSVC(**(common | prototypes | changes))
        from polymargin.estimators.multiclass import MulticlassSVC

        return MulticlassSVC(**(common | {"machine": self.machine.lower()} | changes))

    def _intercept(self) -> dict[str, Any]:
        """liblinear's -B: a constant feature of that value, none if it is not above 0."""
        if self.bias is None:
            return {"intercept": self.intercept or "auto"}
        if self.bias <= 0:
            return {"intercept": "none"}
        return {"intercept": "penalized", "intercept_scaling": self.bias}

    def words(self) -> str:
        """The recipe for people."""
        text = MACHINES[self.machine]
        if self.is_prototypes and not isinstance(self.prototypes, list):
            text += f", {self.prototypes} prototypes per class"
        return f"{text}, {self.kernel} kernel"


def _one(value: Any) -> Any:
    """The first of several values."""
    return value[0] if isinstance(value, list) else value


# -- options -----------------------------------------------------------------------------------


def recipe_options(lists: bool = False, machine: str = "MP") -> Callable[[Command], Command]:
    """Options of the machine; with ``lists`` C, gamma and prototypes take several values."""
    many = "  Several values: commas between." if lists else ""
    options = [
        click.option("-m", "--machine", type=click.Choice(list(MACHINES), case_sensitive=False),
                     default=machine, show_default=True, help="MP: multi-prototype; CS, WW, LLW, "
                     "MSVM2 (MSVMpack's names) and others: one prototype per class; HULL: convex "
                     "hulls."),
        click.option("-p", "--prototypes", type=Number(whole=True, many=lists),
                     help=f"MP: prototypes per class.  Default: {DEFAULT_PROTOTYPES}."
                     + ("" if not lists else "  Several values: 1,3,5,10.")),
        click.option("-c", "--C", "C", type=Number(("auto",), many=lists), default="auto",
                     show_default=True, help="Weight of the losses; auto: picked by validation; "
                     "inf: hard margin." + many),
        click.option("-k", "--kernel", type=click.Choice(KERNELS), default="linear",
                     show_default=True, help="Kernel."),
        click.option("-g", "--gamma", type=Number(("scale", "auto"), many=lists), default="scale",
                     show_default=True, help="Width of rbf, poly, sigmoid." + many),
        click.option("-d", "--degree", type=float, default=3.0, show_default=True,
                     help="Degree of poly."),
        click.option("-r", "--coef0", type=float, default=0.0, show_default=True,
                     help="Constant of poly and sigmoid."),
        click.option("-e", "--tol", type=Number(), help="Relative duality gap at which training "
                     "ends.  Default: 0.001, HULL 1e-6."),
        click.option("-B", "--bias", type=float, help="Value of a constant feature; none if "
                     "negative.  Default: --intercept."),
        click.option("--intercept", type=click.Choice(["auto", "none", "penalized", "free"]),
                     help="Kind of intercept.  Default: auto."),
        click.option("--eta", type=Number(), help="HULL: largest weight of an example.  Default: "
                     "picked by validation."),
        click.option("--class-weight", type=click.Choice(["none", "balanced"]), default="none",
                     show_default=True, help="balanced: rare classes count as much as others."),
        click.option("--restarts", type=click.IntRange(1), default=1, show_default=True,
                     help="MP: runs, of which the best is kept."),
        click.option("--annealing", type=click.Choice(["default", "thorough", "paper"]),
                     default="default", show_default=True, help="MP: schedule."),
        click.option("--assignment", type=click.Choice(["annealed", "greedy", "static"]),
                     default="annealed", show_default=True,
                     help="MP: how examples find prototypes."),
        click.option("--metric", type=click.Choice(["euclidean", "learned"]), default="euclidean",
                     show_default=True, help="MP, linear kernel: learned makes directions that "
                     "tell classes apart cheap."),
        click.option("--cache-mb", type=Number(), default=1000.0, show_default=True,
                     help="Memory for kernel values."),
        click.option("--scale", type=click.Choice(SCALES), default="auto", help="Scaling of the "
                     "features, stored in the model.  Default: standard, for sparse data maxabs."),
        click.option("--max-time", type=Number(), help="Seconds for picking C and training; the "
                     "model that is best on validation rows is kept."),
        click.option("--rows", type=Number(("auto", "all"), whole=True), default="auto",
                     help="Train on a random sample of so many rows.  Default: all, for MP at most "
                     f"{MOST_ROWS}."),
        click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True,
                     help="Seed: the same gives the same model."),
        click.option("-j", "--jobs", type=click.IntRange(min=-1), default=1, show_default=True,
                     help="Threads; -1: all."),
    ]  # fmt: skip

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def take_recipe(options: dict[str, Any]) -> Recipe:
    """Remove the options of the machine from all options; refuse those that do not fit together."""
    machine = options["machine"].upper()
    if options["metric"] != "euclidean" and machine != "MP":
        raise click.UsageError(f"--metric is for -m MP, not for -m {machine}.")
    if options["prototypes"] is not None and machine != "MP":
        raise click.UsageError(f"-p/--prototypes is for -m MP; -m {machine} has one per class.")
    if options["eta"] is not None and machine != "HULL":
        raise click.UsageError("--eta is for -m HULL.")
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
    names = [name for name in Recipe.__dataclass_fields__ if name in options]
    return Recipe(**{name: options.pop(name) for name in names})
