"""Adapters between SMP and other programs: MCP clients, hooks of coding agents, BMAD, MACP, workflows, git."""
