"""How does SMP live in a project that uses BMAD? Beside it: nothing that BMAD's installer writes is ever changed.

    project      which BMAD is this, and where does it keep things?
    skills       which of its skills can be hooked into, and how?
    hook_ins     what are agents and workflows told about memory?
    toml_lists   how does something get into the lists of a TOML file, and out again?
    host         what `smp install bmad` puts into a project
    module       BMAD's own installer, with SMP as a module
    memlog_text  what stands in a memlog, byte for byte
    memlog       how do several processes write to one memlog?

Loading this package loads nothing.
"""
