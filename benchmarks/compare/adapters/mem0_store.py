"""mem0 with infer=False, so that no language model is asked, on a local vector store."""

from __future__ import annotations

import os

os.environ["MEM0_TELEMETRY"] = "False"

from adapters.embedder import DIMENSIONS, embed
from mem0 import Memory

_WHO = {"user_id": "ada"}


class _Embedder:
    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return embed(text)

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [embed(text) for text in texts]


class Peer:
    def __init__(self, folder: str, store: str) -> None:
        place = {"path": os.path.join(folder, store), "collection_name": "bench", "embedding_model_dims": DIMENSIONS}
        place |= {"on_disk": True} if store == "qdrant" else {"distance_strategy": "cosine"}
        unused = {"api_key": "unused"}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": store, "config": place},
                "embedder": {"provider": "openai", "config": {**unused, "embedding_dims": DIMENSIONS}},
                "llm": {"provider": "openai", "config": unused},
                "history_db_path": os.path.join(folder, "history.db"),
            }
        )
        self._memory.embedding_model = _Embedder()
        self._ids: dict[str, str] = {}

    def add(self, key: str, text: str) -> None:
        added = self._memory.add(text, metadata={"key": key}, infer=False, **_WHO)
        self._ids[key] = added["results"][0]["id"]

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        for key, text in pairs:
            self.add(key, text)

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        found = self._memory.search(text, filters=_WHO, top_k=limit, threshold=0.0)["results"]
        return [(each["metadata"]["key"], each["score"]) for each in found]

    def keys(self) -> list[str]:
        found = self._memory.get_all(filters=_WHO, top_k=1_000_000)["results"]
        return [each["metadata"]["key"] for each in found]

    def delete(self, key: str) -> None:
        self._memory.delete(self._ids[key])

    def close(self) -> None:
        self._memory.close()
