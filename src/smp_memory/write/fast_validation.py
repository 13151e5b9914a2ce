"""Is there anything in a new memory that needs a closer look? Most are a few texts and tags, and one look at all of them
together tells that they are valid, were not recalled and hold no secret.

Guarantees: the fields that come out are those that `validate`, `fence` and the redactor would give one after the other.
`None` says nothing but that they have to be asked: for a field of another kind, for whatever they may object to.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter

from smp_memory.errors import InvalidRecord
from smp_memory.import_lock import loading
from smp_memory.model.types import ROLES
from smp_memory.privacy.fence import MARK
from smp_memory.write import typos, validation
from smp_memory.write.typos import CHECKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from smp_memory.model.types import Kind
    from smp_memory.privacy.redaction import Redactor

    Getter = Callable[[Mapping[str, Any]], tuple[Any, ...]]

_TEXT = {str}
_NAME_BYTES = 25  # of a field, more than enough


class FastForm:
    """What callers of one kind of memory give who use these names."""

    __slots__ = ("has_author", "has_role", "has_tags", "may_warn", "names", "names_warn", "of_texts", "values")

    def __init__(self, kind: Kind, plan: list[validation.Planned], texts: list[str]) -> None:
        self.names = [target for _, target, _ in plan]  # SMP's own, in the order of writing
        self.values: Getter = _getter([name for name, _, _ in plan])
        self.of_texts: Getter = _getter(texts)
        self.has_tags = "tags" in self.names
        self.has_role = "role" in self.names
        self.has_author = "author" in self.names
        self.names_warn = bool(typos.of_names(kind, tuple(self.names)))
        self.may_warn = self.names_warn or not CHECKED.isdisjoint(self.names)


def fields(
    form: FastForm,
    given: Mapping[str, Any],
    default_author: Callable[[str | None], str | None],
    limit_bytes: int,
    redactor: Redactor | None,
) -> dict[str, Any] | None:
    """The fields of such a memory, with the author who is meant if none is named."""
    data = dict(zip(form.names, form.values(given), strict=True))
    texts = form.of_texts(data)
    if set(map(type, texts)) != _TEXT or "" in texts or (form.has_role and data["role"] not in ROLES):
        return None
    try:
        if form.has_tags:
            data["tags"] = tags = validation.tag_list("tags", data["tags"])
            texts += (*tags,)
        if not form.has_author:
            author = default_author(data.get("role"))
            if author is not None:
                data = {"author": author, **data}
                texts += (author,)
        said = validation.utf8("text", "\n".join(texts))
    except InvalidRecord:
        return None
    if 4 * (len(said) + _NAME_BYTES * len(data)) > limit_bytes or MARK in said:  # as if every character took four bytes
        return None
    return data if redactor is None or not redactor.may_be_in(said) else None


@lru_cache(maxsize=500)
def form_of(kind: Kind, names: tuple[str, ...]) -> FastForm | None:
    """None if there is more to it than texts and tags. People use the same few names again and again."""
    plan = validation.plan(kind, names)
    if "type" in names or not all(_is_simple(target, check) for _, target, check in plan):
        return None
    texts = [target for _, target, _ in plan if target not in ("role", "tags")]
    return FastForm(kind, plan, texts) if all(set(group).intersection(texts) for group in kind.required) else None


def _is_simple(target: str, check: validation.Check) -> bool:
    with loading:
        from smp_memory.privacy.redaction import is_text_alone  # only who writes needs the rules

    return target in ("role", "tags") or (check in validation.OF_TEXT and is_text_alone(target))


def _getter(names: list[str]) -> Getter:
    """One name makes no tuple by itself."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda fields: tuple(fields[name] for name in names)
