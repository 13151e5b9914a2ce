"""Names of a query, other names of a memory's subject, and typing errors in words that no memory has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory.errors import InvalidRecord
from smp_memory.memory import Memory
from smp_memory.text.names import MORE_THAN_ONE, distance, is_correctable, names_in, simple_variants, variants
from smp_memory.text.tokenizer import STOP_WORDS, terms


@pytest.fixture
def memory() -> Memory:
    return smp_memory.open(":memory:")


# -- names in a text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What are we using Redis for?", ["Redis"]),
        ("ask Priya", ["Priya"]),
        ("How far is it from Rotterdam to Basel?", ["Rotterdam", "Basel"]),
        ("what does `ledger` do", ["ledger"]),
        ("why does snake_case fail in getUserName", ["snake_case", "getUserName"]),
        ("is PAY-1234 done in v1.2.3 of src/a/main.py", ["PAY-1234", "v1.2.3", "src/a/main.py"]),
        ("NASA called", ["NASA"]),
        ("кто такой Иван", ["Иван"]),
        ("What Is The Best Way To Cook Rice", []),
        ("Wer hat die Rechnung im Keller bezahlt und das Geld genommen?", []),
        ("Which one did I choose? Tell me.", []),
        ("the limit is 3.5 percent", []),
        ("日本語の質問です", []),
        ("", []),
    ],
)
def test_identifiers_and_words_capitalised_inside_a_sentence_are_names(text: str, names: list[str]) -> None:
    assert names_in(text) == {term for name in names for term in terms(name)} - STOP_WORDS


@given(st.text(max_size=200))
def test_names_are_terms_of_the_text(text: str) -> None:
    assert names_in(text) <= set(terms(text.replace("`", " "))) | set(terms(text))


# -- other names


def test_a_memory_is_found_by_other_names_of_its_subject(memory: Memory) -> None:
    session = memory.create_session("s")
    session.add_decision("The identity provider signs tokens", aliases=["Keymaster", "IdP"])
    session.add_learning("Keymaster is also the name of a film about a big locked door in the mountains")
    assert session.query("Keymaster").ids[0] == "DEC-0001"
    assert session.get("DEC-0001").aliases == ["Keymaster", "IdP"]
    session.update("DEC-0001", aliases="Gatekeeper")
    assert session.query("Gatekeeper").ids == ["DEC-0001"]
    assert "DEC-0001" not in session.query("IdP").ids
    session.add_turn("user", "The printer is broken", aliases=("Bertha", "Bertha"))
    assert session.get("TURN-0001").aliases == ["Bertha"]


@pytest.mark.parametrize("value", [5, True, {"a": "b"}, [""], ["a", None], ["a", 5], [["a"]], "", "  "])
def test_aliases_that_are_no_names_are_rejected(memory: Memory, value: object) -> None:
    session = memory.create_session("s")
    with pytest.raises(InvalidRecord) as error:
        session.add("decision", {"decision": "x", "aliases": value})
    assert error.value.field == "aliases"
    assert len(session.records()) == 0


# -- typing errors


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Postgers", "postgres"),
        ("postgers", "postgres"),
        ("Postgress", "postgres"),
        ("Potgres", "postgres"),
        ("Kubernetis", "kubernetes"),
        ("deploymnet", "deployment"),
        ("Nortwhind", "northwind"),
        ("Москве", ""),
        ("Прокет", "проект"),
    ],
)
def test_one_typing_error_in_an_unknown_word_is_forgiven_and_said(memory: Memory, word: str, meant: str) -> None:
    session = memory.create_session("s")
    session.add_decision("Use Postgres on Kubernetes; each deployment is done by Northwind. Наш проект.")
    hits = session.query(f"what about {word}")
    assert hits.corrected == ({word: meant} if meant else {})
    assert hits.ids == (["DEC-0001"] if meant else [])


@pytest.mark.parametrize("text", ['"Postgers"', "Postger*", "-Postgers x", "Postgres9", "Pstg", "Bostgres", "Pozzgres"])
def test_phrases_wildcards_exclusions_numbers_and_first_letters_are_not_corrected(memory: Memory, text: str) -> None:
    session = memory.create_session("s")
    session.add_decision("Use Postgres")
    assert session.query(text).corrected == {}


def test_known_words_are_not_corrected(memory: Memory) -> None:
    session = memory.create_session("s")
    session.add_decision("The contract is signed")
    session.add_decision("The contact is Ada")
    assert session.query("contract").corrected == {}
    assert session.query("contact").corrected == {}


def test_a_word_as_it_was_typed_ranks_above_a_correction(memory: Memory) -> None:
    session = memory.create_session("s")
    session.add_decision("Use Postgres for the orders")
    session.add_decision("The mail mentions orders")
    hits = session.query("Postgers orders")
    assert hits.ids[0] == "DEC-0001"


def test_a_correction_says_nothing_about_hidden_memories_or_other_sessions(memory: Memory) -> None:
    session = memory.create_session("s")
    session.add_decision("The project Nightingale is secret", author="spy", visibility="private")
    assert session.agent("other").query("Nightingael").corrected == {}
    assert session.agent("spy").query("Nightingael").corrected == {"Nightingael": "nightingale"}
    other = memory.create_session("other")
    other.add_decision("x")
    assert other.query("Nightingael").corrected == {}


def test_corrections_know_memories_in_the_text_engine_and_in_the_memtable(tmp_path: Path) -> None:
    with smp_memory.open(str(tmp_path / "s"), config={"durability": "os"}) as memory:
        session = memory.create_session("s")
        session.add_many([("learning", {"learning": f"note {n} about Frostgate"}) for n in range(1700)])
        assert session.query("Frostagte", limit=1).corrected == {"Frostagte": "frostgate"}
        assert session.query("Forstgate", limit=1).corrected == {"Forstgate": "frostgate"}
        session.add_learning("Emberfall is new")
        assert session.query("Embrefall", limit=1).ids == ["LEARN-1701"]
        session.delete("LEARN-1701")
        session.purge()
    with smp_memory.open(str(tmp_path / "s")) as memory:
        assert memory.query("Frostgaet", limit=1).corrected == {"Frostgaet": "frostgate"}


@given(st.text("abcdefg", min_size=5, max_size=8))
def test_every_variant_has_one_error_and_the_same_first_letter(word: str) -> None:
    assert is_correctable(word)
    for each in (*variants(word), *simple_variants(word)):
        assert distance(word, each) < MORE_THAN_ONE
        assert distance(word, each) == distance(each, word)
        assert each[0] == word[0]
