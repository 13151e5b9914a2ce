"""Settings of a store or a session: what can be set, where it was set, and which value applies.

Modules:

    schema           every setting: allowed values, what depends on it, whether it protects
    settings         `Config`: the settings of a store or a session, with their sources
    sources          the settings of one source, collected and validated
    config_file      read and edit `config.json` and the settings of a session
    design_settings  settings of the original designs as SMP's own

Nothing is loaded with the package.
"""
