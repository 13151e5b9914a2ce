"""The tokenizer: terms of texts, and of queries."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smp_memory.text import tokenizer
from smp_memory.text.tokenizer import STOP_WORDS, ParsedText, bag_of_terms, joined_terms, parse, terms
from smp_memory.text.wildcards import literal_prefix, term_matcher


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n", []),
        ("The houses, running!", ["the", "hous", "run"]),
        ("don't John's John’s I'm we'll", ["don", "john", "john", "i", "we"]),
        ("l'homme", ["l", "homm", "l'homme"]),
        ("well-known", ["well", "known", "well-known"]),
        ("--dry-run -v", ["dri", "run", "v", "dry-run"]),
        ("auth_service.py", ["auth", "servic", "py", "auth_service.py"]),
        ("(auth_service.py),", ["auth", "servic", "py", "auth_service.py"]),
        ("OAuth2", ["oauth", "2", "oauth2"]),
        ("oauth2", ["oauth", "2", "oauth2"]),
        ("FIND-001", ["find", "001", "find-001"]),
        ("getUserName()", ["get", "user", "name", "getusernam"]),
        ("HTTPServer userID", ["http", "server", "user", "id", "httpserver", "userid"]),
        ("iPhone eBay GitHub", ["iphon", "ebay", "git", "hub", "github"]),
        ("v2 2nd 3f9ac p95", ["v2", "2nd", "3f9ac", "p95"]),
        ("v1.2.3", ["v1", "2", "3", "v1.2.3"]),
        ("src/a/b.ts", ["src", "a", "b", "ts", "src/a/b.ts", "b.ts"]),
        (r"C:\x\y.py", ["c", "x", "y", "py", "c:\\x\\y.py", "y.py"]),
        ("a.b@c.org", ["a", "b", "c", "org", "a.b@c.org", "a.b", "c.org"]),
        ("https://x.org/p?q=1", ["https", "x", "org", "p", "q", "1", "https://x.org/p?q=1", "x.org"]),
        ("C++, C# or .NET", ["c", "c", "or", "net", "c++", "c#"]),
        ("key=value; f(x)", ["key", "valu", "f", "x", "key=value"]),
        ("—…!?() *", []),
        ("a\0b", ["a", "b"]),
        ("x\ud800y", ["x", "y"]),
        ("zero\u200bwidth soft\u00adhyphen", ["zerowidth", "softhyphen"]),
        ("🎉party 👍🏽", ["🎉", "parti", "👍"]),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("数据库连接", ["数据", "据库", "库连", "连接", "接"]),
        ("库", ["库"]),
        ("用iPhone拍", ["用", "iphon", "拍"]),
        ("データベース", ["デー", "ータ", "タベ", "ベー", "ース", "ス"]),
        ("人々。", ["人々", "々"]),
        ("집에 데이터를", ["집에", "에", "데이", "이터", "터를", "를"]),
        ("ไทย", ["ไท", "ทย", "ย"]),
        ("ລາວ", ["ລາ", "າວ", "ວ"]),
        ("ខ្មែរ"[:2], ["ខ្", "្"]),
        ("မြန်"[:2], ["မြ", "ြ"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("𠀀𠀁", ["𠀀𠀁", "𠀁"]),
    ],
)
def test_scripts_without_spaces_become_pairs(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "cafe\u0301"),
        ("café", "CAFE"),
        ("Ｆｕｌｌ", "full"),
        ("ﬁle", "file"),
        ("STRASSE", "straße"),
        ("İstanbul", "istanbul"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("ёлка", "елка"),
        ("ｶﾞ", "ガ"),
        ("한글", unicodedata.normalize("NFD", "한글")),
        ("מַתָּנָה", "מתנה"),
        ("مُحَمَّد", "محمد"),
        ("كـتـاب", "كتاب"),
        ("run", "running"),
        ("e‑mail", "e-mail"),
    ],
)
def test_words_in_equivalent_unicode_forms_are_equal(one: str, other: str) -> None:
    assert terms(one) == terms(other)


def test_parts_keep_the_order_of_the_text_and_wholes_come_last() -> None:
    found = terms("see auth_service.py for getUserName now")
    assert found == [
        "see",
        "auth",
        "servic",
        "py",
        "for",
        "get",
        "user",
        "name",
        "now",
        "auth_service.py",
        "getusernam",
    ]


def test_long_texts_are_not_cut() -> None:
    text = "word " * 25_000 + "a_b " * 25_000 + "last"
    found = terms(text)
    assert len(found) == 25_000 + 2 * 25_000 + 1 + 25_000
    assert found[75_000] == "last"
    assert found[-1] == "a_b"


def test_a_long_word_is_found_in_pieces_and_no_term_is_too_long_for_an_engine() -> None:
    found = terms("x" * 1_000_000 + " " + "ы" * 1_000_000 + " " + "a/" * 1000 + " " + "漢" * 1000)
    assert max(map(len, found)) == tokenizer.LONGEST_WORD
    assert found.count("漢漢") == 999


def test_the_memo_is_bounded() -> None:
    for start in range(0, 200_000, 20_000):
        terms(" ".join(f"w{number}x" for number in range(start, start + 20_000)))
        assert len(tokenizer._memo) * 100 <= tokenizer.MEMO_CHARACTERS + 20_000 * 120


def test_full_memo_passes_on_pieces_that_occur_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "MEMO_CHARACTERS", 3000)
    monkeypatch.setattr(tokenizer, "_memo", tokenizer._Memo())
    expected = terms("common auth_service.py")
    analysed: list[str] = []
    analyse = tokenizer._analyse
    monkeypatch.setattr(tokenizer, "_analyse", lambda piece: analysed.append(piece) or analyse(piece))
    for number in range(200):
        assert terms(f"common w{number}x auth_service.py")[0] == expected[0]
        assert terms("common auth_service.py") == expected
        assert bag_of_terms("auth_service.py common").split() == [*expected[1:], expected[0]]
    assert sorted(analysed) == sorted(f"w{number}x" for number in range(200))
    older = tokenizer._memo.older
    assert older is not None
    assert older.older is None


@pytest.mark.parametrize(
    "text", ["", "--- = ;", "one", "see auth_service.py, then getUserName() 漢字 x", "-- a_b " * 30_000]
)
def test_the_index_has_the_same_terms_in_any_order(text: str) -> None:
    found = bag_of_terms(text)
    assert sorted(found.split()) == sorted(terms(text))
    assert found == "".join(f"{term} " for term in found.split())


@given(st.text())
@example("İ\u0345ﬀ '’ʼ’ #++ +# '' _ __ -_-")
def test_terms_of_any_text_are_valid_for_the_engine(text: str) -> None:
    found = terms(text)
    assert found == joined_terms(text).split()
    assert sorted(bag_of_terms(text).split()) == sorted(found)
    for term in found:
        assert term.encode()
        assert not re.search(r"\s", term)
        assert 0 < len(term) <= tokenizer.LONGEST_WHOLE


@given(st.text(alphabet=st.characters(categories=["L", "N", "M"]), min_size=1))
def test_words_of_every_script_are_found_again(word: str) -> None:
    """Whatever the letters: what is indexed is what is asked for."""
    asked = parse(word)
    found = terms(word)
    assert set(asked.words) <= set(found)
    for pattern in asked.characters:
        assert any(map(term_matcher(pattern), found))


@given(st.text(alphabet="数据库连接ไทยの한국", min_size=3, max_size=12), st.data())
def test_any_part_of_a_run_of_pairs_is_found(run: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(run) - 1))
    part = run[start : data.draw(st.integers(start + 1, len(run)))]
    found = terms(run)
    asked = parse(part)
    assert set(asked.words) <= set(found)
    assert all(any(map(term_matcher(pattern), found)) for pattern in asked.characters)
    assert asked.words or asked.characters
    for phrase in parse(f'"{part}"').phrases:
        assert any(tuple(found[at : at + len(phrase)]) == phrase for at in range(len(found)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ParsedText()),
        ("what did Caroline research?", ParsedText(("carolin", "research"))),
        ("go go Go", ParsedText(("go",))),
        ("tea tea milk", ParsedText(("tea", "milk"))),
        ("the who", ParsedText(("the", "who"))),
        ('the "old plan"', ParsedText((), (("old", "plan"),))),
        ('say "to be, or not" now', ParsedText(("say", "now"), (("to", "be", "or", "not"),))),
        ("“smart quotes”", ParsedText((), (("smart", "quot"),))),
        ('"unbalanced quote', ParsedText(("unbalanc", "quot"))),
        ('five" pipe', ParsedText(("five", "pipe"))),
        ('"" x', ParsedText(("x",))),
        ('"…" x', ParsedText(("x",))),
        ("plan -draft", ParsedText(("plan",), excluded=(("draft",),))),
        ('plan -"first draft"', ParsedText(("plan",), excluded=(("first", "draft"),))),
        ("plan -first-draft", ParsedText(("plan",), excluded=(("first", "draft"),))),
        ("plan -draft*", ParsedText(("plan",), excluded_patterns=("draft*",))),
        ("plan - b --force -v -5", ParsedText(("plan", "b", "forc", "v", "5"))),
        ("well-known", ParsedText(("well", "known", "well-known"))),
        ("auth*", ParsedText(patterns=("auth*",))),
        ("a*b, src/a* FIND-*", ParsedText(patterns=("a*b", "src/a*", "find-*"))),
        ("**bold** * ***", ParsedText(("bold",))),
        ("OAuth2", ParsedText(("oauth", "2", "oauth2"))),
        ("数据库", ParsedText(("数据", "据库"))),
        ("库", ParsedText(characters=("库*",))),
        ("왜 auth* 数据", ParsedText(("数据",), patterns=("auth*",), characters=("왜*",))),
        ('"库"', ParsedText(patterns=("库*",))),
        ('"数据库 plan"', ParsedText((), (("数据", "据库", "库", "plan"),))),
        ('"数据库"', ParsedText((), (("数据", "据库"),))),
        ("数据*", ParsedText((), (("数据",),))),
        ("-数据", ParsedText(excluded=(("数据",),))),
        ("-库", ParsedText(excluded_patterns=("库*",))),
    ],
)
def test_query_texts(text: str, expected: ParsedText) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("authenticat*", "authentication"),
        ("authentica*", "authenticated"),
        ("runn*", "running"),
        ("happin*", "happiness"),
        ("getUser*", "getUserName"),
        ("CAF*", "café"),
        ("auth_*", "auth_service.py"),
        ("*service*", "auth_service.py"),
        ("s*ice", "slice"),
    ],
)
def test_patterns_match_stems_and_wholes(typed: str, word: str) -> None:
    (pattern,) = parse(typed).patterns
    meant = list(filter(term_matcher(pattern), terms(word)))
    assert meant
    assert all(term.startswith(literal_prefix(pattern)) for term in meant)


@pytest.mark.parametrize(
    ("pattern", "other"),
    [("authentica*", "auth"), ("a*b", "abc"), ("a[b]*", "ab"), ("a?*", "ab"), ("a.*", "ab"), ("a|b*", "a")],
)
def test_only_the_star_is_special_in_patterns(pattern: str, other: str) -> None:
    assert not term_matcher(pattern)(other)


@given(st.text(alphabet=st.sampled_from('ab -"*\\()[]^$|?+.{}数“”\0\ud800\n')))
def test_no_query_text_fails(text: str) -> None:
    asked = parse(text)
    for pattern in (*asked.patterns, *asked.excluded_patterns):
        assert not term_matcher(pattern)("\n")
        assert literal_prefix(pattern) in pattern
    assert all(asked.phrases)
    assert all(asked.excluded)
    assert bool(asked) is any(asked)


def test_parsed_query_is_truthy_if_it_has_any_part() -> None:
    assert parse("x")
    assert parse("-draft")
    assert not parse("… -- **")


def test_stop_words_are_terms() -> None:
    """They are compared with terms: a word that the stemmer changes would never be recognised."""
    for word in ("the", "because", "before", "during", "themselves", "why", "does", "something", "very", "only"):
        assert terms(word)[0] in STOP_WORDS
