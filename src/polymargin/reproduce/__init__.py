"""Published experiments, run again by one command: ``polymargin reproduce NAME``."""
