"""Workflows."""
