"""The Multi-Agent Collaboration Protocol (MACP): messages of agents, answered from a store."""
