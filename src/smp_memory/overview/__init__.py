"""What is there, all in all? Topics, timeline, agents and a summary of some memories. Pure: no disk, no clock, no LLM.

Each takes any records, of one session or of many, skips deleted ones, and gives a result that can be gone through, has
`to_dict()` in the shape that the designs show, and is the same for the same records in whatever order they come.
"""

from __future__ import annotations

from smp_memory.overview.participants import Participant, Participants, agents
from smp_memory.overview.summary import SessionSummary, summarize
from smp_memory.overview.timeline import Timeline, TimelineEvent, timeline
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
