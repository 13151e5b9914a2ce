"""What an agent gets in its prompt: candidates, token budget, format and visible sessions; and the digest `MEMORY.md`."""
