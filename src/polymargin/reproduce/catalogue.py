"""All experiments by name; their modules are imported when asked for."""

from __future__ import annotations

import importlib

from polymargin.reproduce.experiment import Experiment

__all__ = ["EXPERIMENTS", "find_experiment"]

# name -> module, and one line for the list of experiments
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "mprot-usps-letter": (
        "usps_letter",
        "multi-prototype machine on USPS and LETTER (MP, Table 2)",
    ),
    "mprot-annealing": ("annealing_grid", "energy over cooling and prototypes (MP, Table 5)"),
    "mprot-binary": ("binary_sets", "multi-prototype machine on two-class sets (MP, Table 3)"),
    "mprot-lvq": ("lvq_digits", "multi-prototype machine against LVQ2.1 (MP, Table 1)"),
    "smo": ("smo_figures", "the SMO-like family: four figures (SMO)"),
    "ad-svm": ("hull_tables", "AD-SVM, one-vs-rest, one-vs-one (AD, Table 1)"),
    "msvm": ("msvm_tables", "four machines on USPS, criteria for model selection (M2)"),
    "formulations": ("formulations", "eight formulations on ten sets, ranks (scikit-learn #13556)"),
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; an unknown one is refused with the names that there are."""
    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    module = importlib.import_module(f"polymargin.reproduce.{EXPERIMENTS[name][0]}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
