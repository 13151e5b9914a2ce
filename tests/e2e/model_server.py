"""A model that always says the same, over the three protocols that coding agents speak, on this machine alone."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

ANSWER = "With OAuth 2.0, as decided."


class ModelServer:
    """Runs inside a `with` block; `asked` holds what it was sent."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.asked.append(body.decode("utf-8", "replace"))
                kind, answer = _answer(self.path, body, len(outer.asked))
                self._send(200, kind, answer)

            def do_GET(self) -> None:
                self._send(404, "text/plain", b"")

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _answer(path: str, body: bytes, number: int) -> tuple[str, bytes]:
    if path.startswith("/v1/responses"):
        return _stream(_of_openai(number))
    if "generateContent" in path or "GenerateContent" in path:
        said = {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP", "index": 0}]}  # fmt: skip
        return _stream([said]) if "stream" in path else _document(said)
    if "countTokens" in path:
        return _document({"totalTokens": 5})
    if "count_tokens" in path:
        return _document({"input_tokens": 5})
    if b'"stream":true' in body.replace(b" ", b""):
        return _stream(_of_anthropic(number))
    message = {**_message(number), "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
    return _document(message)


def _document(value: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()


def _stream(events: list[dict[str, Any]]) -> tuple[str, bytes]:
    parts = [(f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n" for event in events]  # fmt: skip
    return "text/event-stream", "".join(parts).encode()


def _of_openai(number: int) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": ANSWER, "annotations": []}]
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    done = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {"id": f"resp_{number}"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]


def _message(number: int) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip


def _of_anthropic(number: int) -> list[dict[str, Any]]:
    return [
        {"type": "message_start", "message": _message(number)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
