"""SMP in a project that uses BMAD. Nothing that BMAD's installer writes is ever changed.

    project         the generation of BMAD in a project, its folders, and SMP as a module of BMAD
    customisation   what `smp install bmad` adds to BMAD's customisation files
    toml_edit       add items to lists of a TOML file, and remove them
    memlog          the format of a memlog, and writing to one from several processes

Loading this package loads nothing.
"""
