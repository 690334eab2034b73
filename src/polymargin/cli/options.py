"""All options of the commands: output, data, columns, machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from polymargin.cli.machine_setup import DEFAULT_PROTOTYPES, MACHINES, MOST_ROWS
from polymargin.cli.messages import be_quiet

__all__ = [
    "data_argument",
    "data_options",
    "large_data_options",
    "machine_options",
    "output_options",
    "take_data_options",
    "training_options",
]


Command = TypeVar("Command", bound=Callable[..., Any])

KERNELS = ("linear", "rbf", "poly", "sigmoid")
SCALES = ("auto", "none", "standard", "minmax", "maxabs", "unit")


# -- output -----------------------------------------------------------------------------------


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    be_quiet(bool(value))
    return value


def output_options(command: Command) -> Command:
    """``--json`` and ``-q``."""
    command = click.option("--json", "as_json", is_flag=True, help="Result as JSON.")(command)
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_be_quiet,
        expose_value=False,
        is_eager=True,
        help="No messages and no progress.",
    )(command)


# -- data -------------------------------------------------------------------------------------

_DATA_OPTIONS = (
    click.option("-l", "--label", metavar="COLUMN", help="Label column: name, or number from 0 "
                 "(negative from the end).  Default: the last."),
    click.option("--header/--no-header", default=None, help="First row holds names, or not.  "
                 "Default: guessed."),
    click.option("--delimiter", metavar="CHAR", help="A character, 'tab' or 'space'.  Default: "
                 "guessed."),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark.  Default: "
                 "guessed."),
    click.option("--encoding", metavar="NAME", help="Encoding of text, such as latin-1 or cp1252.  "
                 "Default: UTF-8."),
    click.option("--missing", multiple=True, metavar="TEXT", help="Further text that stands for no "
                 "value; may be given several times."),
    click.option("--ignore", multiple=True, metavar="COLUMN", help="Column to leave out; may be "
                 "given several times."),
    click.option("--query", metavar="SELECT", help="One SELECT over DATA, which is the table "
                 "'data': \"SELECT a, b, y FROM data WHERE b > 0\"."),
    click.option("--format", "format_", type=click.Choice(["csv", "tsv", "jsonl", "parquet",
                 "libsvm", "arff", "npz"]), help="Format of DATA.  Default: by its name, then by "
                 "its beginning."),
    click.option("--part", type=click.Choice(["train", "test", "validation"]), help="NPZ: rows of "
                 "train_idx, test_idx or val_idx."),
    click.option("--float32/--float64", default=None, help="Precision of the data in memory.  "
                 "Default: double, single for files over 500 MB."),
    click.option("--max-bytes", type=click.IntRange(1), help="Largest unpacked size of a packed "
                 "file.  Default: 1 GiB, or 200 times its packed size."),
)  # fmt: skip  # fmt: skip
_COLUMN_OPTIONS = (
    click.option("--numeric", multiple=True, metavar="COLUMN", help="Column of numbers; may be "
                 "given several times, as the next two."),
    click.option("--categorical", multiple=True, metavar="COLUMN", help="Column of categories, one "
                 "0/1 feature for each."),
    click.option("--text", multiple=True, metavar="COLUMN", help="Column of free text, a tf-idf "
                 "feature for each word."),
    click.option("--columns", "columns_file", metavar="FILE", help="TOML or JSON file with the "
                 "kind of columns: name = \"number\", \"category\", \"text\", \"date\", "
                 "\"date %d/%m/%Y\" or \"ignore\"."),
)  # fmt: skip  # fmt: skip


def _one_or_all(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
    return value[0] if len(value) == 1 else list(value)


data_argument = click.argument("data", nargs=-1, required=True, callback=_one_or_all)
"""One file, or several that are one table."""


def _with(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    """The command with these options in front of those that it has."""
    for option in reversed(list(options)):
        command = option(command)
    return command


def data_options(command: Command) -> Command:
    """How DATA is read."""
    return _with(command, _DATA_OPTIONS)


def training_options(command: Command) -> Command:
    """How DATA is read, and what its columns are."""
    return data_options(_with(command, _COLUMN_OPTIONS))


_LARGE_OPTIONS = (
    click.option("--memory", metavar="SIZE", help="Train on all rows of DATA with about this "
                 "memory, such as 1GB: rows are converted to blocks on disk once and visited block "
                 "after block.  Linear machines; DATA may also be a folder, or .npy with --label "
                 "LABELS.npy."),
    click.option("--scratch", metavar="DIR", help="Folder for these blocks; kept, and used again "
                 "while DATA is the same.  Default: a temporary one."),
    click.option("--cluster", metavar="ADDRESS", help="Train on a Dask cluster: tcp://HOST:PORT, "
                 "or local:N for N processes here.  Workers must see --scratch."),
)  # fmt: skip


def _names(options: tuple[Any, ...]) -> list[str]:
    """The names under which a command gets its options."""

    def command() -> None: ...

    for option in options:
        option(command)
    return [param.name for param in command.__click_params__]  # type: ignore[attr-defined]


LARGE_NAMES = _names(_LARGE_OPTIONS)


def large_data_options(command: Command) -> Command:
    """Where rows do not fit into memory."""
    return _with(command, _LARGE_OPTIONS)


def take_data_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of DATA from all options."""
    names = [*_names((*_DATA_OPTIONS, *_COLUMN_OPTIONS)), "group"]
    return {name: options.pop(name) for name in names if name in options}


# -- machines ---------------------------------------------------------------------------------


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


_AUTO_OPTIONS = [
    click.option("--objective", type=click.Choice(["accuracy", "balanced_accuracy", "log_loss"]),
                 default="accuracy", show_default=True, help="auto: what validation measures; "
                 "log_loss adds probabilities."),
    click.option("--prefer", type=click.Choice(["accurate", "small", "fast"]), default="accurate",
                 show_default=True, help="auto: small and fast take the smallest or fastest model "
                 "that is not clearly worse."),
    click.option("--budget", type=Number(), help="auto: seconds for the choice.  Default: 6, more "
                 "from 10,000 rows on."),
]  # fmt: skip


def _machine_option(default: str | None) -> Callable[[Command], Command]:
    names = list(MACHINES) if default is not None else ["auto", *MACHINES]
    auto = "" if default is not None else "auto (default): chosen by validation; "
    return click.option(
        "-m",
        "--machine",
        type=click.Choice(names, case_sensitive=False),
        default=default,
        show_default=default is not None,
        help=f"{auto}MP: multi-prototype; CS, WW, LLW, MSVM2 (MSVMpack's names) and others: one "
        "prototype per class; HULL: convex hulls.",
    )


def machine_options(
    lists: bool = False, machine: str | None = None
) -> Callable[[Command], Command]:
    """Options of the machine; with ``lists`` C, gamma and prototypes take several values."""
    many = "  Several values: commas between." if lists else ""
    options = [
        _machine_option(machine),
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
        click.option("--init", type=click.Choice(["auto", "kmeans", "random"]), default="auto",
                     show_default=True, help="MP: first assignment; auto is random with "
                     "--annealing paper, else kmeans."),
        click.option("--solver", default="auto", show_default=True, metavar="NAME", help="auto; "
                     "block, frank-wolfe, cycles; HULL: smo, frank-wolfe; CS and MP: a member of "
                     "the SMO-like family as PATTERN,SELECTION,THRESHOLD (opt-kkt,bmg,mean)."),
        click.option("--offset", type=click.Choice(["center", "kkt"]), default="center",
                     show_default=True, help="HULL: where scores are measured from."),
        click.option("--landmarks", type=Number(("auto",)), help="Approximate kernel by so "
                     "many training rows (below 1: a part of them): fast on many rows, and the "
                     "size of the model is fixed."),
        click.option("--cache-mb", type=Number(), default=1000.0, show_default=True,
                     help="Memory for kernel values."),
        click.option("--scale", type=click.Choice(SCALES), default="auto", help="Scaling of the "
                     "features, stored in the model; unit: rows of length 1 (images, counts).  "
                     "Default: standard; sparse: none or maxabs."),
        click.option("--max-time", type=Number(), help="Seconds for picking C and training; the "
                     "model that is best on validation rows is kept."),
        click.option("--group", metavar="COLUMN", help="Rows with the same value (speaker, "
                     "patient, document) stay together in validation; the column is no feature."),
        click.option("--rows", type=Number(("auto", "all"), whole=True), default="auto",
                     help="Train on a random sample of so many rows.  Default: all, for MP at most "
                     f"{MOST_ROWS}."),
        click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True,
                     help="Seed: the same gives the same model."),
        click.option("-j", "--jobs", type=click.IntRange(min=-1), default=1, show_default=True,
                     help="Threads; -1: all."),
    ]  # fmt: skip

    if machine is None:
        options += _AUTO_OPTIONS
    return lambda command: _with(command, options)
