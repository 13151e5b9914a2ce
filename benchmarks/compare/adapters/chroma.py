"""Chroma's persistent client."""

from __future__ import annotations

import chromadb
from adapters.embedder import embed
from chromadb.config import Settings


class Peer:
    def __init__(self, folder: str) -> None:
        self._client = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
        self._notes = self._client.get_or_create_collection(
            "bench", embedding_function=None, metadata={"hnsw:space": "cosine"}
        )

    def add(self, key: str, text: str) -> None:
        self.fill([(key, text)])

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        keys, texts = [key for key, _ in pairs], [text for _, text in pairs]
        self._notes.add(ids=keys, documents=texts, embeddings=[embed(text) for text in texts])

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        found = self._notes.query(query_embeddings=[embed(text)], n_results=limit, include=["documents", "distances"])
        return [(key, 1 - distance) for key, distance in zip(found["ids"][0], found["distances"][0], strict=True)]

    def keys(self) -> list[str]:
        return list(self._notes.get(include=[])["ids"])

    def delete(self, key: str) -> None:
        self._notes.delete(ids=[key])

    def close(self) -> None:
        self._client.close()
