"""Records and hits in notebooks, data frames and pickles; the names of the package."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import smp_memory


@pytest.fixture
def session() -> Any:
    memory = smp_memory.open(":memory:")
    session = memory.create_session("s1")
    session.add_decision("Use <b>OAuth</b> & PKCE", rationale="Standard", tags=["auth"])
    session.add_finding("Login has no rate limit", severity="high")
    session.add_preference("style", "concise")
    yield session
    memory.close()


def test_dir_lists_the_public_names() -> None:
    assert set(smp_memory.__all__) == set(dir(smp_memory))


def test_hits_survive_pickling_with_explanation_and_counts(session: Any) -> None:
    hits = session.query("oauth login", count_by="type")
    again = pickle.loads(pickle.dumps(hits))
    assert [hit.to_dict() for hit in again] == [hit.to_dict() for hit in hits]
    assert again.counts == hits.counts
    assert again.problems == []


def test_records_survive_pickling(session: Any) -> None:
    records = session.records(include_deleted=True)
    again = pickle.loads(pickle.dumps(records))
    assert again == records
    assert again.problems == records.problems


def test_dictionary_of_a_record_has_its_text(session: Any) -> None:
    assert [record.to_dict()["text"] for record in session.records()] == [
        "Use <b>OAuth</b> & PKCE",
        "Login has no rate limit",
        "concise",
    ]


def test_copy_of_a_record_by_its_dictionary_stores_no_field_text(session: Any) -> None:
    for record in session.records():
        fields = {name: value for name, value in record.to_dict().items() if name not in ("id", "key")}
        copy = session.add(record.type, fields)
        assert "text" not in copy.given
        assert copy.text == record.text


def test_own_field_named_text_is_kept(session: Any) -> None:
    record = session.add("decision", {"decision": "x", "text": "something else"})
    assert record.given["text"] == "something else"
    assert record.to_dict()["text"] == "something else"


def test_dictionaries_of_hits_are_flat_rows(session: Any) -> None:
    hits = session.query("oauth")
    (row,) = hits.to_dicts()
    assert row["decision"] == "Use <b>OAuth</b> & PKCE"
    assert row["relevance"] == hits[0].relevance
    assert row["priority"] == hits[0].priority
    assert session.records("finding").to_dicts()[0]["severity"] == "high"


@pytest.mark.parametrize("of", ["record", "hit", "hits", "records"])
def test_html_for_notebooks_escapes_content(session: Any, of: str) -> None:
    hits = session.query("oauth")
    shown = {"record": hits[0].record, "hit": hits[0], "hits": hits, "records": session.records("decision")}[of]
    html = shown._repr_html_()
    assert "&lt;b&gt;OAuth&lt;/b&gt; &amp; PKCE" in html
    assert "<b>" not in html


def test_html_table_counts_rows_beyond_the_limit() -> None:
    from smp_memory.model.record import html_table

    assert "… and 50 more" in html_table(["n"], [(number,) for number in range(150)])


def test_preview_is_a_table_of_what_is_told_and_left_out() -> None:
    memory = smp_memory.open(":memory:")
    session = memory.create_session("lab")
    session.add_finding("Invoices of March are <b>duplicates</b>", author="ada")
    session.add_decision("Invoices are read twice", valid_until="2020-01-01")
    table = memory.preview("analyst", task="duplicate invoices of March")._repr_html_()
    assert "told" in table
    assert "&lt;b&gt;duplicates" in table
    assert "<b>" not in table
