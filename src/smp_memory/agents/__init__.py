"""Agents in a session: what one of them may see and write, and several at one table.

Modules:

    agent_memory  a session as one agent may see and write it
    rights        write rights of an agent
    party         several agents in one session: shared findings, decisions with their authors

Nothing is loaded with the package.
"""
