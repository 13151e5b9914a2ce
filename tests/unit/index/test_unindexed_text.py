"""The memtable gives the same results whether documents are in the posting lists yet or not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.index.query import TextQuery, Weights
from smp_memory.index.unindexed import UnindexedText

WORDS = st.sampled_from(["a", "b", "bb", "auth", "auth_service.py", "x"])
ROWS = st.dictionaries(
    st.integers(0, 30),
    st.tuples(st.lists(WORDS, min_size=1, max_size=6), st.sampled_from(["s1 t1", "s1 t2"])),
    max_size=12,
)


def tail_of(rows: dict[int, tuple[list[str], str]], *, posted: bool) -> UnindexedText:
    tail = UnindexedText()
    tail.put({doc: (" ".join(words), labels, doc, doc) for doc, (words, labels) in rows.items()})
    if posted:
        tail.post()
    else:
        tail._postings.clear()
        tail._unposted = dict(tail._docs)
    return tail


def found(tail: UnindexedText, wanted: TextQuery, weights: Weights) -> list[tuple[int, float]]:
    return sorted((each.doc, round(each.match, 9)) for each in tail.search(wanted, weights, 3.0))


@settings(max_examples=150, deadline=None)
@given(ROWS, st.lists(WORDS, unique=True, max_size=3), st.lists(WORDS, max_size=1), st.booleans())
def test_results_do_not_depend_on_posting_lists(
    rows: dict[int, tuple[list[str], str]], terms: list[str], excluded: list[str], narrow: bool
) -> None:
    wanted = TextQuery(terms, excluded=[[word] for word in excluded], labels=[["t1"]] if narrow else [])
    weights = Weights(dict.fromkeys(terms, 1.5), [], excluded)
    quick, slow = tail_of(rows, posted=True), tail_of(rows, posted=False)
    assert [quick.frequency(term) for term in terms] == [slow.frequency(term) for term in terms]
    assert found(quick, wanted, weights) == found(slow, wanted, weights)
    assert found(slow, wanted, weights) == found(quick, wanted, weights)  # now that some have been posted in passing


@settings(max_examples=60, deadline=None)
@given(ROWS, ROWS, st.sets(st.integers(0, 30)))
def test_replaced_or_removed_documents_leave_no_postings(
    rows: dict[int, tuple[list[str], str]], more: dict[int, tuple[list[str], str]], kept: set[int]
) -> None:
    tail = tail_of(rows, posted=True)
    tail.put({doc: (" ".join(words), labels, doc, doc) for doc, (words, labels) in more.items()})
    tail.keep(kept)
    fresh = tail_of({doc: row for doc, row in {**rows, **more}.items() if doc in kept}, posted=True)
    assert {term: dict(tail._counts(term)) for term in tail.terms()} == {
        term: dict(fresh._counts(term)) for term in fresh.terms()
    }
    assert tail.tokens == fresh.tokens
