"""Overviews of memories: topics, timeline, agents and a summary. Pure: no disk, no clock, no LLM.

Each takes any records, of one session or of many, and skips deleted ones. Each result is iterable, has `to_dict()` in
the shape that the designs show, and is the same for the same records in whatever order they come.
"""
