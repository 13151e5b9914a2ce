"""Validate new memories of texts and tags only: validation, removal of recalled text and redaction in one pass.

Guarantees: the fields that `plain_fields` returns equal those of `validation.draft`, the fence and the redactor applied one after the
other (docs/adr/0023-fast-paths.md).
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter

from smp_memory.errors import InvalidRecord
from smp_memory.import_lock import loading
from smp_memory.model.types import ROLES
from smp_memory.privacy.fence import MARK
from smp_memory.write import typos
from smp_memory.write.validation import TEXT_CHECKS, plan, tag_list, utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from smp_memory.model.types import Kind
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.write.validation import Check, Planned

    Getter = Callable[[Mapping[str, Any]], tuple[Any, ...]]

_TEXT = {str}
_NAME_BYTES = 25  # allowed for the name of a field, more than any has


class PlainForm:
    """A set of field names of a type that are all texts, tags or the role."""

    __slots__ = ("has_author", "has_name_warnings", "has_role", "has_tags", "may_warn", "names", "texts", "values")

    def __init__(self, kind: Kind, planned: list[Planned], texts: list[str]) -> None:
        self.names = [target for _, target, _ in planned]  # SMP's names, in the order of writing
        self.values: Getter = _getter([name for name, _, _ in planned])
        self.texts: Getter = _getter(texts)
        self.has_tags = "tags" in self.names
        self.has_role = "role" in self.names
        self.has_author = "author" in self.names
        self.has_name_warnings = bool(typos.name_warnings(kind, tuple(self.names)))
        self.may_warn = self.has_name_warnings or not typos.CHECKED.isdisjoint(self.names)


def plain_fields(
    form: PlainForm,
    given: Mapping[str, Any],
    default_author: Callable[[str | None], str | None],
    limit_bytes: int,
    redactor: Redactor | None,
) -> dict[str, Any] | None:
    """The validated fields, with the default author if none is given; None if the fast path cannot decide."""
    data = dict(zip(form.names, form.values(given), strict=True))
    texts = form.texts(data)
    if set(map(type, texts)) != _TEXT or "" in texts or (form.has_role and data["role"] not in ROLES):
        return None
    try:
        if form.has_tags:
            data["tags"] = tags = tag_list("tags", data["tags"])
            texts += (*tags,)
        if not form.has_author:
            author = default_author(data.get("role"))
            if author is not None:
                data = {"author": author, **data}
                texts += (author,)
        joined = utf8("text", "\n".join(texts))
    except InvalidRecord:
        return None
    if 4 * (len(joined) + _NAME_BYTES * len(data)) > limit_bytes or MARK in joined:  # assumes four bytes per character
        return None
    return data if redactor is None or not redactor.may_contain_secret(joined) else None


@lru_cache(maxsize=500)
def plain_form(kind: Kind, names: tuple[str, ...]) -> PlainForm | None:
    """The form for these names; None if they include other fields than texts, tags and role. Cached: callers use few sets of names."""
    planned = plan(kind, names)
    if "type" in names or not all(_is_simple(target, check) for _, target, check in planned):
        return None
    texts = [target for _, target, _ in planned if target not in ("role", "tags")]
    return PlainForm(kind, planned, texts) if all(set(group).intersection(texts) for group in kind.required) else None


def _is_simple(target: str, check: Check) -> bool:
    with loading:
        from smp_memory.privacy.redaction import is_plain_text_field  # late: only writers need the rules

    return target in ("role", "tags") or (check in TEXT_CHECKS and is_plain_text_field(target))


def _getter(names: list[str]) -> Getter:
    """Like `itemgetter`, but always returns a tuple."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda fields: tuple(fields[name] for name in names)
