"""Adding memories."""

from __future__ import annotations

import sys

from smp.cli.arguments import assignment, json_or_text
from smp.cli.render import paint
from smp.errors import InvalidRecord
from smp.model.types import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call


def _common_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="what to remember; - reads it from standard input")
    add("--tag", action="append", dest="tags", metavar="TAG", help="a tag such as security.login; repeat for more")
    add("--topic", help="what it is about, in a word or two")
    add("--importance", type=json_or_text, metavar="N", help="from 0 to 1")
    add(
        "--confidence",
        type=json_or_text,
        metavar="N",
        help="from 0 to 1, or a word: explicit, high, medium, inferred, low, uncertain",
    )
    add("--pin", action="store_true", help="keep it from fading")
    add("--created", metavar="TIME", help="when it happened, if not now: 2026-01-31T14:30:00Z")
    add("--id", help="an id of your own, if not the next number")
    add("--key", metavar="KEY", dest="idempotency_key", help="repeating a command with the same key adds nothing twice")
    add("--field", action="append", default=[], type=assignment, dest="fields", metavar="NAME=VALUE", help="any other field; JSON if it can be read as such, else text; repeat for more")  # fmt: skip


_COMMON = ("tags", "topic", "importance", "confidence", "created", "id", "idempotency_key")


def _add(call: Call, type_name: str, **given: Any) -> None:
    """Add a memory from the common options and what a command has of its own."""
    options = call.options
    given |= {name: getattr(options, name) for name in _COMMON}
    given |= {
        "pinned": options.pin or None,
        "author": options.author,
        _text_field(call, type_name): _content(call, type_name),
    }
    data = dict(options.fields) | {name: value for name, value in given.items() if value is not None}
    record = call.session(create=True).add(type_name, data)
    call.written(record, f"{paint('bold', record.id)} stored in session {record.session}")


def _text_field(call: Call, type_name: str) -> str:
    """Where a memory of this type has its text: a preference with a key says it as the key's value."""
    given = dict(call.options.fields)
    return "value" if type_name == "preference" and "key" in given and "value" not in given else kind_of(type_name).text


def _content(call: Call, type_name: str) -> Any:
    text = call.options.text
    if text == "-":
        text = _standard_input(keep_end=type_name == "artifact")
    if type_name == "agent_state":
        value = json_or_text(text)
        return value if isinstance(value, (dict, list)) else text
    return text


def _standard_input(keep_end: bool) -> str:
    try:
        text = sys.stdin.buffer.read().decode() if hasattr(sys.stdin, "buffer") else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"standard input: not valid UTF-8, at byte {error.start}.", field="text") from None
    return text if keep_end else text.removesuffix("\n").removesuffix("\r")


# -- add


def add_arguments(parser: Parser) -> None:
    parser.add_argument("type", metavar="TYPE", help="conversation (or turn), decision, finding, preference, agent_state, artifact, learning, summary")  # fmt: skip
    _common_arguments(parser)
    parser.add_argument("--role", help="of a turn: user, assistant, system, tool or an agent's name")


def run_add(call: Call) -> None:
    """Add a memory of any type to a session, and say its id when it is safely stored.

    The text is that of a turn, a decision, a finding and so on; of an artifact the content, of a preference with a key
    its value (the same key again changes it), of an agent_state the state (JSON or text; its agent is the author).
    Everything else goes into options. A final line end from standard input is dropped, except from an artifact. To give
    a field a text that looks like JSON, quote it: --field 'n="7"'

    Examples:
      smp add decision "Use OAuth 2.0" --tag auth --importance 0.9 --author architect
      smp add turn "How do we log in?" --role user
      smp add preference concise --field key=response_style
      smp add agent_state '{"task": "review", "done": 3}' --author veritas
      git diff | smp add artifact - --field name=change.diff --key change-42
    """
    options, kind = call.options, kind_of(call.options.type).name
    given: dict[str, Any] = {}
    if kind == "conversation":
        given["role"] = options.role or dict(options.fields).get("role") or ("assistant" if call.author else "user")
    elif options.role:
        given["role"] = options.role
    if kind == "agent_state":
        given["agent"] = dict(options.fields).get("agent") or call.author
    _add(call, kind, **given)


# -- decide


def decide_arguments(parser: Parser) -> None:
    _common_arguments(parser)
    parser.add_argument("--rationale", metavar="TEXT", help="why")
    parser.add_argument("--alternative", action="append", dest="alternatives", metavar="TEXT", help="what else was considered; repeat for more")  # fmt: skip
    parser.add_argument("--impact", metavar="TEXT", help="what follows from it")


def run_decide(call: Call) -> None:
    """Add a decision, with its reasons.

    Examples:
      smp decide "Use OAuth 2.0" --rationale "Standard, supports single sign-on" --alternative "Own passwords" --tag auth
      smp decide "Ship on Friday" --impact "Freeze from Wednesday" --author architect
    """
    options = call.options
    _add(
        call,
        "decision",
        rationale=options.rationale,
        alternatives_considered=options.alternatives,
        impact=options.impact,
    )


# -- note


def note_arguments(parser: Parser) -> None:
    _common_arguments(parser)
    parser.add_argument("--severity", metavar="WORD", help="how bad it is: critical, high, medium, low, info")
    parser.add_argument("--category", metavar="WORD", help="of what kind it is, such as security")


def run_note(call: Call) -> None:
    """Add a finding: something that was noticed. `smp resolve` closes it.

    Examples:
      smp note "Login has no rate limit" --severity high --category security --tag security.login
      smp note "Tests take nine minutes" --author veritas
    """
    _add(call, "finding", severity=call.options.severity, category=call.options.category)
