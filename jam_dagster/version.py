"""The version of the package, which every folder may read."""

__version__ = "0.2.0"
