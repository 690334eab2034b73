"""The scikit-learn estimators: check, prepare, solve, store, predict."""
