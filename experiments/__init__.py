"""Published tables, run again: one folder per paper, ``python -m experiments.<folder>``."""
