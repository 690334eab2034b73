"""The order of the gallery: from what a machine is to what can be done with a model."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "class_in_the_middle",
    "four_machines",
    "digits_by_prototypes",
    "size_against_accuracy",
    "who_is_at_the_optimum",
    "gap_and_test_error",
    "path_of_c",
    "landmarks_of_a_kernel",
    "languages_by_strings",
    "costs_move_borders",
    "answers_and_risk",
    "sets_of_labels",
    "nearest_change",
)


class ReadingOrder:
    """Sort key of sphinx-gallery: the place in ``ORDER``; new scripts come last."""

    def __init__(self, source_folder: str) -> None:
        self.source_folder = source_folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
