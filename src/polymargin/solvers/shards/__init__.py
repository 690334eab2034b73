"""Linear machines on parts of the rows: one dual, many shards (theory: docs/theory, section 20)."""
