"""Solvers: one compiled body, one outer loop per kind of field."""
