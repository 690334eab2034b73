"""Primal, dual and gap of a dual point, recomputed in float64 without any solver."""
