"""How a relevance is shown beside the floor."""

from smp_memory.context.trace import relevance_text


def test_relevance_below_the_floor_is_not_shown_as_the_floor() -> None:
    assert relevance_text(0.648, 0.65) == "0.6480"
    assert relevance_text(0.64, 0.65) == "0.64"
    assert relevance_text(0.652, 0.65) == "0.65"
