"""Solvers of the convex-hull machine (AD-SVM)."""
