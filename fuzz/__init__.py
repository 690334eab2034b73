"""Coverage-guided fuzzing of all that reads bytes from outside: ``python -m fuzz --help``."""
