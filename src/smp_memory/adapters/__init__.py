"""Adapters: SMP as the memory of agent frameworks. One module for each framework, all on `adapters.bridge`.

Importing a module imports its framework; without it, the ImportError names the extra to install.
"""
