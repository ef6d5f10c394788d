"""Domains: attributes, their values, impossible combinations."""
