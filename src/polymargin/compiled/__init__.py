"""Compiled code: the one ``jit``, the verbs on rows of data, one file per step kind and loop."""
