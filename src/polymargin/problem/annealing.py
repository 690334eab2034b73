"""Annealing: how the multi-prototype machine cools its assignments."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from polymargin.exceptions import shown

__all__ = ["PRESETS", "Annealing", "Schedule", "find_annealing"]

_COLDEST = 0.01  # final temperature in units of C where none is given
_MOST_STEPS = 100_000


class Schedule(NamedTuple):
    """What a solver needs: temperatures in units of slack, passes, restoration, and balance.

    ``sweeps`` is the number of passes at each temperature, or 0 for as many as it takes to bring
    the energy below that of the drawn assignment.
    """

    temperatures: np.ndarray
    sweeps: int
    zeroing: bool
    balance: float = 0.0


class Annealing(BaseEstimator):
    r"""Temperature law and what happens between two draws of the assignments.

    At temperature T every example i is assigned to prototype s of its class with probability
    proportional to

    .. math:: n_s^{-\text{balance}} \exp\bigl(-C (\xi_i^s - \min_r \xi_i^r) / T\bigr),

    :math:`n_s` the weight of the examples that s has at present ((3.5) for balance 0); T falls by
    the factor ``1 - cooling`` from draw to draw.

    Parameters
    ----------
    initial_temperature : float, default=0.5
    cooling : float in (0, 1), default=0.05
    final_temperature : float or None, default=None
        The last temperature is not below this; None is 0.01 C.
    sweeps : int or "descent", default=20
        Passes over the violating patterns between two draws.  "descent": until the energy is below
        that of the drawn assignment, as published, at most 20.
    restoration : {"transfer", "zeroing"}, default="transfer"
        What happens to the dual variables of an example that changes its prototype (A13): its
        weight goes to the new prototype, or is given up.
    units : {"C", "absolute"}, default="C"
        "C" counts temperatures in multiples of C, so that they mean the same for every C.
    balance : float >= 0, default=1.0
        How much prototypes with few examples are preferred, so that fewer of them die; 0 is the
        published law.

    See Also
    --------
    MultiPrototypeSVC : Takes it as ``annealing``.

    References
    ----------
    Aiolli & Sperduti, JMLR 6 (2005) 817-850, section 6.2.

    Examples
    --------
    >>> from polymargin import Annealing
    >>> Annealing(initial_temperature=1.0, cooling=0.5, final_temperature=0.2).temperatures(C=3.0)
    array([1.  , 0.5 , 0.25])
    """

    def __init__(
        self,
        initial_temperature: float = 0.5,
        cooling: float = 0.05,
        final_temperature: float | None = None,
        sweeps: int | str = 20,
        restoration: str = "transfer",
        units: str = "C",
        balance: float = 1.0,
    ) -> None:
        self.initial_temperature = initial_temperature
        self.cooling = cooling
        self.final_temperature = final_temperature
        self.sweeps = sweeps
        self.restoration = restoration
        self.units = units
        self.balance = balance

    def temperatures(self, C: float) -> np.ndarray:
        """The temperatures of all draws, in multiples of C (units of slack)."""
        self._check()
        unit = 0.0 if self.units == "C" else np.log(C)
        first = np.log(float(self.initial_temperature)) - unit
        last = np.log(_COLDEST)
        if self.final_temperature is not None:
            last = np.log(float(self.final_temperature)) - unit
        rate = -np.log1p(-float(self.cooling))
        if not np.isfinite(first):
            return np.empty(0)  # an infinite C: nothing is ever drawn
        steps = 1.0 + np.floor(max(first - last, 0.0) / rate + 1e-9)
        return np.exp(first - rate * np.arange(int(min(steps, _MOST_STEPS))))

    def schedule(self, C: float) -> Schedule:
        """The same as the solver wants it."""
        self._check()
        sweeps = 0 if isinstance(self.sweeps, str) else int(self.sweeps)
        zeroing = self.restoration == "zeroing"
        return Schedule(self.temperatures(C), sweeps, zeroing, float(self.balance))

    def _check(self) -> None:
        _check_positive("initial_temperature", self.initial_temperature)
        _check_positive("cooling", self.cooling)
        if self.cooling >= 1:
            raise ValueError(f"annealing: cooling must be in (0, 1), got {shown(self.cooling)}.")
        if self.final_temperature is not None:
            _check_positive("final_temperature", self.final_temperature)
        sweeps = self.sweeps
        is_count = isinstance(sweeps, numbers.Integral) and not isinstance(sweeps, bool)
        if not (is_count and int(sweeps) >= 1) and sweeps != "descent":
            raise ValueError(
                f"annealing: sweeps must be an integer >= 1 or 'descent', got {shown(sweeps)}."
            )
        if self.restoration not in ("transfer", "zeroing"):
            raise ValueError(
                f"annealing: restoration must be 'transfer' or 'zeroing', got "
                f"{shown(self.restoration)}."
            )
        if self.units not in ("C", "absolute"):
            raise ValueError(
                f"annealing: units must be 'C' or 'absolute', got {shown(self.units)}."
            )
        if not (_is_number(self.balance) and 0.0 <= float(self.balance) < np.inf):
            raise ValueError(
                f"annealing: balance must be a finite number >= 0, got {shown(self.balance)}."
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _check_positive(name: str, value: Any) -> None:
    if not (_is_number(value) and 0.0 < float(value) < np.inf):
        raise ValueError(f"annealing: {name} must be a finite number > 0, got {shown(value)}.")


PRESETS: dict[str, Annealing] = {
    # short and warm enough to leave the initial assignment where that pays; chosen by validation
    "default": Annealing(),
    # lowest energy
    "thorough": Annealing(2.0, 0.02, 0.005, 2, "transfer", "C", 0.0),
    # as published
    "paper": Annealing(10.0, 0.05, None, "descent", "zeroing", "absolute", 0.0),
}


def find_annealing(annealing: Any) -> Annealing:
    """The object itself or the preset of that name."""
    if isinstance(annealing, Annealing):
        return annealing
    if not isinstance(annealing, str) or annealing not in PRESETS:
        raise ValueError(
            f"annealing must be one of {sorted(PRESETS)} or an Annealing, got {shown(annealing)}."
        )
    return PRESETS[annealing]
