"""Overviews of memories: topics, timeline, agents and a summary. Pure: no disk, no clock, no LLM.

Each takes any records, of one session or of many, and skips deleted ones. Each result is iterable, has `to_dict()` in
the shape that the designs show, and is the same for the same records in whatever order they come.
"""

from __future__ import annotations

from smp_memory.overview.activity import Participant, Participants, Timeline, TimelineEvent, agents, timeline
from smp_memory.overview.summary import SessionSummary, summarize
from smp_memory.overview.topics import Topic, Topics, topics

__all__ = [
    "Participant",
    "Participants",
    "SessionSummary",
    "Timeline",
    "TimelineEvent",
    "Topic",
    "Topics",
    "agents",
    "summarize",
    "timeline",
    "topics",
]
