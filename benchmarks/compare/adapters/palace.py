"""MemPalace on its default backend, Chroma: the tools of its MCP server, called as functions."""

from __future__ import annotations

import os

from adapters.embedder import embed


class _Embedder:
    """The form that Chroma asks of an embedding function."""

    @staticmethod
    def name() -> str:
        return "bench"

    def __call__(self, input: list[str]) -> list[list[float]]:
        return [embed(text) for text in input]

    def embed_query(self, input: list[str]) -> list[list[float]]:
        return self(input)

    def is_legacy(self) -> bool:
        return True


class Peer:
    def __init__(self, folder: str) -> None:
        self._palace = os.environ["MEMPALACE_PALACE_PATH"] = os.path.join(folder, "palace")
        import mempalace.embedding

        mempalace.embedding.get_embedding_function = lambda device=None, model=None: _Embedder()
        from mempalace import mcp_server, palace, searcher

        self._tools, self._open, self._find = mcp_server, palace.get_collection, searcher.search_memories
        self._ids: dict[str, str] = {}

    def add(self, key: str, text: str) -> None:
        done = self._tools.tool_add_drawer("bench", "notes", text, source_file=key)
        if not done["success"]:
            raise RuntimeError(done["error"])
        self._ids[key] = done["drawer_id"]

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        about = {"wing": "bench", "room": "notes", "chunk_index": 0}
        self._open(self._palace).upsert(
            ids=[key for key, _ in pairs],
            documents=[text for _, text in pairs],
            metadatas=[{**about, "source_file": key} for key, _ in pairs],
        )

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        found = self._find(text, self._palace, n_results=limit)
        if "error" in found:
            raise RuntimeError(found["error"])
        return [(each["source_file"], each.get("similarity") or 0.0) for each in found["results"]]

    def keys(self) -> list[str]:
        found = self._open(self._palace, create=False).get(include=["metadatas"])
        metadatas = found["metadatas"] if isinstance(found, dict) else found.metadatas
        return [each["source_file"] for each in metadatas]

    def delete(self, key: str) -> None:
        assert self._tools.tool_delete_drawer(self._ids[key])["success"]

    def close(self) -> None:
        pass
