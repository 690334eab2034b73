"""Names and titles of the machines, without an import: help texts must not wait for NumPy."""

from __future__ import annotations

__all__ = ["TITLES"]

TITLES = {
    "cs": "Crammer-Singer",
    "ww": "Weston-Watkins",
    "llw": "Lee-Lin-Wahba",
    "msvm2": "M-SVM²",
    "adm": "absolute margins, largest rival slack",
    "atm": "absolute margins, largest slack of all classes",
    "ats": "absolute margins, sum of the slacks of all classes",
    "mmr": "maximum-margin regression",
    "reinforced": "reinforced multi-category SVM",
}
"""The machines of ``MulticlassSVC(machine=...)``, in the order of their table."""
