# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The model to measure: where it is, what it is, how it takes a prompt and where it stops."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epgrpo_verl.data.errors import PrepareError
from epgrpo_verl.data.prompt import load_tokenizer, prompt_ids

from .errors import EvaluationError
from .problems import Problem

ADAPTER_CONFIG, GENERATION_CONFIG = "adapter_config.json", "generation_config.json"
# Where the adapter is in what verl writes: beside a model that its merger wrote, in a Megatron checkpoint, and in an
# FSDP checkpoint of older versions.
_BESIDE = "lora_adapter"
_ADAPTER_FOLDERS = ("", _BESIDE, "model/huggingface/adapter", "actor/model/huggingface/adapter", "actor/lora_adapter")
_WEIGHTS = (".safetensors", ".bin", ".pt")
# Enough to tell two checkpoints apart without reading gigabytes.
_BLOCKS, _BLOCK_BYTES = 64, 1 << 14


@dataclass(frozen=True)
class Model:
    """A model folder, with an adapter or not.

    Attributes:
        name: As it was given.
        folder: Where its files are.
        fingerprint: See `fingerprint`.
        adapter: Folder of the LoRA adapter, or None.
        adapter_name: As it was given.
        adapter_fingerprint: See `fingerprint`.
        adapter_rank: Its rank; 0 without an adapter.
        tokenizer: The model's tokenizer.
        template: First 12 hexadecimal digits of the SHA-256 of the chat template.
        end_tokens: Ids at which a response ends.
        context: Tokens that prompt and response may have together, or None where the config does not say.
    """

    name: str
    folder: Path
    fingerprint: str
    adapter: Path | None
    adapter_name: str | None
    adapter_fingerprint: str | None
    adapter_rank: int
    tokenizer: Any = field(repr=False)
    template: str
    end_tokens: tuple[int, ...]
    context: int | None


def open_model(name: str, adapter: str | None = None) -> Model:
    """Find a model and its adapter, and read everything but the weights.

    Args:
        name: A folder, or a name on the Hugging Face hub.
        adapter: Folder of a PEFT adapter, or one of verl's that holds one.

    Raises:
        EvaluationError: Something is missing, or the adapter can do nothing.
    """
    folder = _model_folder(name)
    if adapter is None and (folder / _BESIDE / ADAPTER_CONFIG).is_file():
        # What verl's own merger writes (verl-project/verl#7285): measured as it is, training would seem to do nothing.
        raise EvaluationError(
            f"--model {name} has a LoRA adapter beside it ({_BESIDE}), which is not part of its weights: "
            f"pass --lora {folder / _BESIDE} too, or move it away to measure the model without it."
        )
    config = _read_json(folder / "config.json")
    try:
        tokenizer = load_tokenizer(str(folder))
    except PrepareError as error:
        raise EvaluationError(str(error)) from error
    adapter_folder, rank = (None, 0) if adapter is None else _adapter_folder(Path(adapter).expanduser())
    template = tokenizer.chat_template
    text = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
    generation = _read_json(folder / GENERATION_CONFIG) if (folder / GENERATION_CONFIG).is_file() else {}
    declared = generation.get("eos_token_id", config.get("eos_token_id"))
    return Model(
        name=name,
        folder=folder,
        fingerprint=fingerprint(folder),
        adapter=adapter_folder,
        adapter_name=adapter,
        adapter_fingerprint=None if adapter_folder is None else fingerprint(adapter_folder),
        adapter_rank=rank,
        tokenizer=tokenizer,
        template=hashlib.sha256(text.encode()).hexdigest()[:12],
        end_tokens=_end_tokens(tokenizer, declared, name),
        context=config.get("max_position_embeddings"),
    )


def _model_folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            if (folder / ADAPTER_CONFIG).is_file():
                base = _read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path") or "BASE_MODEL"
                raise EvaluationError(f"--model {name} is a LoRA adapter: pass --model {base} --lora {name}")
            raise EvaluationError(
                f"--model {name} has no config.json: it is no Hugging Face folder. {_how_to_merge(folder)}"
            )
        return folder
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise EvaluationError(f"--model {name}: there is no such folder, and it is no name on the Hugging Face hub")
    try:
        from huggingface_hub import snapshot_download

        kinds = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
        return Path(snapshot_download(name, allow_patterns=kinds))
    except Exception as error:
        raise EvaluationError(
            f"--model {name} could not be downloaded: {type(error).__name__}: {' '.join(str(error).split())} "
            "Give a local folder, or a model that this machine can download."
        ) from error


def _adapter_folder(given: Path) -> tuple[Path, int]:
    folders = [given / inner for inner in _ADAPTER_FOLDERS]
    folder = next((folder for folder in folders if (folder / ADAPTER_CONFIG).is_file()), None)
    if folder is None:
        inner = ", ".join(_ADAPTER_FOLDERS[1:])
        raise EvaluationError(f"--lora {given}: no {ADAPTER_CONFIG} in it, nor in {inner}. {_how_to_merge(given)}")
    config = _read_json(folder / ADAPTER_CONFIG)
    rank, alpha = config.get("r") or 0, config.get("lora_alpha") or 0
    if config.get("peft_type", "LORA") != "LORA" or rank < 1:
        raise EvaluationError(f"--lora {folder}: {ADAPTER_CONFIG} describes no LoRA adapter (peft_type, r)")
    if alpha == 0:
        raise EvaluationError(
            f"--lora {folder}: lora_alpha is 0, so the adapter would change nothing. Some tools write 0 where they do "
            f"not know it: set lora_alpha in {ADAPTER_CONFIG} to the value of the training."
        )
    return folder, int(rank)


def _how_to_merge(folder: Path) -> str:
    """What to do with the shards that verl's FSDP checkpoints consist of."""
    if any(any(folder.glob(f"{inner}model_world_size_*.pt")) for inner in ("", "actor/")):
        return f"It is a checkpoint of verl: epgrpo merge {folder} --out MERGED makes a folder for --model of it."
    return "A checkpoint of verl (global_step_N) has to be merged first: epgrpo merge --help."


def fingerprint(folder: Path) -> str:
    """16 hexadecimal digits that tell the models in two folders apart.

    The SHA-256 of the configs, and of the names, the sizes and 64 evenly spaced blocks of the weight files. Not of
    every byte: a few seconds for any model.
    """
    digest = hashlib.sha256()
    for config in ("config.json", GENERATION_CONFIG, ADAPTER_CONFIG):
        if (folder / config).is_file():
            digest.update((folder / config).read_bytes())
    files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not files:
        raise EvaluationError(f"{folder} has no weights ({', '.join(_WEIGHTS)})")
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as stream:
            for block in range(_BLOCKS):
                stream.seek(max(0, size - _BLOCK_BYTES) * block // (_BLOCKS - 1))
                digest.update(stream.read(_BLOCK_BYTES))
    return digest.hexdigest()[:16]


def _end_tokens(tokenizer: Any, declared: int | list[int] | None, name: str) -> tuple[int, ...]:
    tokens = {tokenizer.eos_token_id, *(declared if isinstance(declared, list) else [declared])}
    tokens = {token for token in (*tokens, end_of_turn(tokenizer)) if token is not None}
    if not tokens:
        raise EvaluationError(f"--model {name} names no end token: set eos_token_id in its generation_config.json")
    return tuple(sorted(tokens))


def end_of_turn(tokenizer: Any) -> int | None:
    """The special token that the chat template puts behind a response, or None.

    Base models such as Qwen2.5's name another one as their end, and would go on behind their answer
    (QwenLM/Qwen3#927).
    """
    answer = "the answer"
    chat = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": answer}]
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False)
    except Exception:  # templates raise what they like on chats that they do not take
        return None
    _, found, tail = text.rpartition(answer)
    ids = tokenizer(tail.lstrip(), add_special_tokens=False)["input_ids"] if found else []
    return ids[0] if ids and ids[0] in set(tokenizer.added_tokens_decoder) else None


def encode(model: Model, problems: Sequence[Problem], max_tokens: int) -> list[list[int]]:
    """Token ids of the problems' prompts.

    Raises:
        EvaluationError: A prompt leaves no room for ``max_tokens`` more, or the template does not take the messages.
    """
    try:
        encoded = prompt_ids(model.tokenizer, [problem.messages for problem in problems])
    except Exception as error:
        raise EvaluationError(
            f"the chat template of --model {model.name} does not take the prompts: {type(error).__name__}: {error}"
        ) from error
    for problem, ids in zip(problems, encoded, strict=True):
        if model.context is not None and len(ids) + max_tokens > model.context:
            raise EvaluationError(
                f"{problem.set}, problem {problem.id}: a prompt of {len(ids)} tokens and a response of --max-tokens "
                f"{max_tokens} need {len(ids) + max_tokens}, but the model's context is {model.context} "
                f"(max_position_embeddings). Lower --max-tokens to {model.context - len(ids)} or less."
                if len(ids) < model.context
                else f"{problem.set}, problem {problem.id}: the prompt alone has {len(ids)} tokens, and the model's "
                f"context is {model.context} (max_position_embeddings): leave this problem out or use another model."
            )
    return encoded


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from error
