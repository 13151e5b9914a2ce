"""A function of the user as the embedding model: `embed(texts) -> vectors`.

The function is an argument of `smp_memory.open`, or the setting `search.embedder` names it as `module:function`. That setting is
accepted only from the environment and from arguments: a store may come from a stranger and must not name code to import.

Guarantees: the function gets a list of at most `AT_ONCE` texts, none of them blank or longer than `MAX_CHARACTERS`. Whatever it does
(raise, return too few vectors, vectors of different lengths, or numbers that are not finite) is a `ModelUnavailable` that names it; then
the query is answered by words.
A function has no version, so its vector of a fixed text tells whether it is still the same model.
"""

from __future__ import annotations

from math import isfinite

from smp_memory.index.embeddings import ANCHORS, QUESTION_WORDS, ModelUnavailable
from smp_memory.index.vectors import to_signed_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

AT_ONCE = 64  # texts
MAX_CHARACTERS = 8000
MAX_DIMENSIONS = 8192
_PROBE = "The quick brown fox signs in to the shop and pays an invoice."


class FunctionModel:
    """An embedding model that calls a function."""

    batch = 8
    load_ms = 0.0
    weight = 0.5
    question_words = QUESTION_WORDS
    anchors = ANCHORS

    def __init__(self, function: Callable[[list[str]], Any] | str) -> None:
        """A function, or its name as `module:function`. Imports and calls nothing yet."""
        self._given = function
        self._name = function if isinstance(function, str) else _name_of(function)
        self._function = None if isinstance(function, str) else function
        self._identity: tuple[str, int, bytes] | None = None

    def identity(self) -> tuple[str, int, bytes]:
        if self._identity is None:
            (probe,) = self._call([_PROBE])
            if not 0 < len(probe) <= MAX_DIMENSIONS:
                raise self._failure(f"returned a vector of {len(probe)} numbers, allowed are 1 to {MAX_DIMENSIONS}")
            self._identity = self._name, len(probe), to_signed_bytes(probe)
        return self._identity

    def embed(self, texts: Sequence[str]) -> bytes:
        """The vectors of these texts, one after the other; zeros for a blank one."""
        dimensions = self.identity()[1]
        asked = [place for place, text in enumerate(texts) if text.strip()]
        vectors = [bytes(dimensions)] * len(texts)
        for start in range(0, len(asked), AT_ONCE):
            part = asked[start : start + AT_ONCE]
            for place, vector in zip(part, self._call([texts[place][:MAX_CHARACTERS] for place in part]), strict=True):
                if len(vector) != dimensions:
                    raise self._failure(f"returned vectors of {len(vector)} and of {dimensions} numbers")
                vectors[place] = to_signed_bytes(vector)
        return b"".join(vectors)

    def _call(self, texts: list[str]) -> list[list[float]]:
        if self._function is None:
            self._function = _import(self._name)
        try:
            found = self._function(texts)
            found = found.tolist() if hasattr(found, "tolist") else found
            vectors = [[float(number) for number in vector] for vector in found]
        except Exception as error:
            raise self._failure(f"failed with {type(error).__name__}") from error
        if len(vectors) != len(texts):
            raise self._failure(f"returned {len(vectors)} vectors for {len(texts)} texts")
        if not all(isfinite(number) for vector in vectors for number in vector):
            raise self._failure("returned a number that is not finite")
        return vectors

    def _failure(self, text: str) -> ModelUnavailable:
        return ModelUnavailable(f"The embedding function {self._name} {text}.")


def _name_of(function: Callable[..., Any]) -> str:
    """The name of a function as text without spaces; of a callable object that of its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}".replace(" ", "_")


def _import(name: str) -> Callable[[list[str]], Any]:
    from importlib import import_module

    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ModelUnavailable(
            f"search.embedder: {name} cannot be imported ({type(error).__name__}: {error})."
        ) from error
    function: Callable[[list[str]], Any] = found
    return function
