"""SMP in a project that uses BMAD, its workflows and its protocol of agents. Nothing that BMAD's installer writes is ever changed.

    project         the generation of BMAD in a project, its folders, and SMP as a module of BMAD
    customisation   what `smp install bmad` adds to BMAD's customisation files
    memlog          the format of a memlog, and writing to one from several processes
    workflow        what a workflow declares in memory_requirements, needs and may write
    macp            the context manager of the Multi-Agent Collaboration Protocol; macp_messages: its messages

Loading this package loads nothing.
"""
