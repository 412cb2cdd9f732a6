"""The version of popsim, also written into every run."""

__version__ = "0.1.0"
