"""Output of ``polymargin predict`` per row: label, rejection, scores, probabilities, set."""

from __future__ import annotations

from typing import Any, NamedTuple

from polymargin.cli.application import ToolError

__all__ = ["Asked"]


class Asked(NamedTuple):
    """What was asked for besides the label."""

    scores: bool = False
    probabilities: bool = False
    coverage: float | None = None
    reject_margin: float | None = None
    reject_label: str = "reject"

    @property
    def has_columns(self) -> bool:
        return self.scores or self.probabilities or self.coverage is not None

    def check(self, model: Any) -> None:
        """Refuse outputs that the model does not have, before any row is read."""
        if self.probabilities and not hasattr(model, "predict_proba"):
            raise ToolError("--probabilities: the model has none; train it with --probabilities")
        known = [name for name in ("decision_function", "predict_proba") if hasattr(model, name)]
        if self.scores and not known:
            raise ToolError("--scores: the model has neither scores nor probabilities")
        if self.coverage is not None:
            from polymargin.explanation.prediction_sets import coverage_promise

            try:
                coverage_promise(model, self.coverage)
            except ValueError as error:
                if "needs a calibration" not in str(error):
                    raise ToolError(f"--coverage: {error}") from error
                raise ToolError(
                    "--coverage: the model has no calibration; train it with --calibration-folds 5"
                ) from error
        if self.reject_margin is not None:
            if not hasattr(model, "decision_function"):
                raise ToolError("--reject-margin: the model has no scores")
            if self.reject_label in map(str, model.classes_.tolist()):
                raise ToolError(f"--reject-label {self.reject_label}: is one of the classes")

    def promise(self, model: Any) -> str | None:
        """A sentence about the sets."""
        if self.coverage is None:
            return None
        from polymargin.explanation.prediction_sets import coverage_promise

        found = coverage_promise(model, self.coverage)
        if found.kind == "held-out":
            return f"sets hold the label with a probability of at least {found.promised:.3g}"
        return (
            f"sets aim at a coverage of {self.coverage:g} (out-of-fold margins; at least "
            f"{found.promised:.3g} is guaranteed)"
        )

    # -- rows --------------------------------------------------------------------------------

    def headings(self, model: Any) -> list[str]:
        """Columns after the label."""
        classes = model.classes_.tolist()
        found: list[str] = []
        if self.scores and hasattr(model, "decision_function"):
            few = classes[1:] if len(classes) == 2 else classes
            found += [f"score_{label}" for label in few]
        if self._shows_probabilities(model):
            found += [f"probability_{label}" for label in classes]
        return found + (["set"] if self.coverage is not None else [])

    def _shows_probabilities(self, model: Any) -> bool:
        return self.probabilities or (self.scores and not hasattr(model, "decision_function"))

    def decide(self, model: Any, part: Any) -> dict[str, Any]:
        """Labels and whatever else was asked for, of some rows."""
        found: dict[str, Any] = {"labels": self._labels(model, part)}
        if self.scores and hasattr(model, "decision_function"):
            found["scores"] = model.decision_function(part).tolist()
        if self._shows_probabilities(model):
            found["probabilities"] = model.predict_proba(part).tolist()
        if self.coverage is not None:
            from polymargin.explanation.prediction_sets import predict_set

            classes = model.classes_.tolist()
            members = predict_set(model, part, self.coverage).tolist()
            found["sets"] = [
                [label for label, is_in in zip(classes, row, strict=True) if is_in]
                for row in members
            ]
        return found

    def _labels(self, model: Any, part: Any) -> list[Any]:
        labels: list[Any] = model.predict(part).tolist()
        if self.reject_margin is None:
            return labels
        import numpy as np

        from polymargin.estimators.inspection import class_scores

        top = np.partition(class_scores(model, part), -2, axis=1)[:, -2:]
        rejected = (top[:, 1] - top[:, 0] <= self.reject_margin).tolist()
        return [
            self.reject_label if out else label for label, out in zip(labels, rejected, strict=True)
        ]

    def cells(self, found: dict[str, Any]) -> list[list[str]]:
        """Rows of text: the label, numbers with all their digits, the set with | between."""
        rows = [[str(label)] for label in found["labels"]]
        for name in ("scores", "probabilities"):
            for row, values in zip(rows, found.get(name, ()), strict=False):
                row += [repr(value) for value in (values if isinstance(values, list) else [values])]
        for row, members in zip(rows, found.get("sets", ()), strict=False):
            row.append("|".join(map(str, members)))
        return rows
