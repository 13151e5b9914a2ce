"""Macp."""
