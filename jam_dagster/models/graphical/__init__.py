"""Graphical models over junction trees: inference, fits and sampling."""
