"""The page Agent view: what it says if an agent is told nothing."""

from __future__ import annotations

import smp_memory
from smp_memory.memory import Memory
from tests.unit.web.inspector_client import InspectorClient


def test_empty_prompt_is_asked_for_and_an_empty_phrase_is_explained(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("shop").add_decision("Use OAuth")
    assert "Write a prompt to see what an agent is told at it." in client.get("/agent").text
    assert "The prompt has no content words." in client.get("/agent?kind=prompt&task=yes,+go+on").text
    with smp_memory.open(memory.root, config={"hooks.recall": False}) as silent:
        assert "hooks.recall is off." in InspectorClient(silent).get("/agent").text
