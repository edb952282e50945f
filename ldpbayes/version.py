"""The version of this package: below everything, so that a page states it and needs no door."""

__version__ = "1.0.0rc1"
