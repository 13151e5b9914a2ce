"""Workflows that declare which memories they read and write."""
