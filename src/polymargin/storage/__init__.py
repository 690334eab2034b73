"""Model files, and writing files whole or not at all."""
