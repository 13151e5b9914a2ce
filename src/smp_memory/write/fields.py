"""Types of the fields that the `add_…` methods take, for signatures: `def add_decision(self, decision, **fields: Unpack[DecisionFields])`.

Imported for type checking only. At run time fields that SMP does not know are stored as well; a type checker accepts them in
`session.add("decision", {…})`. `smp_memory.write.validation` checks the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class CommonFields(TypedDict, total=False):
    """Fields of every type."""

    id: str
    author: str | None
    author_kind: str
    created: datetime | str
    turn_ref: str | int
    topic: str
    tags: Sequence[str] | str
    confidence: float | str
    importance: float | str
    pinned: bool
    references: Sequence[str] | Mapping[str, Any]
    relations: Sequence[Mapping[str, Any]]
    access: Mapping[str, Any]
    visibility: str
    trust: str | float
    idempotency_key: str


class TurnFields(CommonFields, total=False):
    kind: str


class DecisionFields(CommonFields, total=False):
    rationale: str
    alternatives_considered: Sequence[Any]
    alternatives: Sequence[Any]
    impact: Any
    reversible: bool | str
    approved_by: Sequence[str] | str
    agreed_by: Sequence[str] | str
    agents_involved: Sequence[str] | str
    status: str
    resolution: Any


class FindingFields(CommonFields, total=False):
    severity: str
    category: str
    evidence: Any
    recommendation: str
    location: Any
    impact: Any
    root_cause: str
    status: str
    resolution: Any


class PreferenceFields(CommonFields, total=False):
    preference: str
    category: str
    context: Any
    source: str
    applies_to: Any
    learned_from: Sequence[str] | str


class ArtifactFields(CommonFields, total=False):
    path: str
    format: str


class LearningFields(CommonFields, total=False):
    category: str
