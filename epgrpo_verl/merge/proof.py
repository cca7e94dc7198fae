# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a written folder back, as its user will, and states what holds of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoTokenizer, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from epgrpo_verl.doctor.report import Check, failed, ok, warning

from .compare import Comparison, compare
from .trained import Trained
from .write import tied_names

if TYPE_CHECKING:
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger

PROBE = [{"role": "user", "content": "What is 17 + 25?"}]


def prove(
    trained: Trained,
    merger: FSDPModelMerger,
    generation_config_from: str,
    on_tensor: Callable[[], None] = lambda: None,
) -> list[Check]:
    """Loads the folder that the merger wrote, and checks it against the checkpoint and the base.

    Args:
        trained: What was to be written.
        merger: The one that wrote it.
        generation_config_from: See `write.add_generation_config`.
        on_tensor: Called after each tensor that was compared.

    Returns:
        One check per statement. The folder is right if none of them failed.
    """
    folder, saved = Path(merger.config.target_dir), Path(merger.hf_model_config_path)
    trust = merger.config.trust_remote_code
    try:
        model, loading = merger.get_transformers_auto_model_class().from_pretrained(
            folder, dtype="auto", trust_remote_code=trust, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
    except Exception as error:
        return [failed("loads", f"transformers cannot load the folder: {error}")]
    tied = tied_names(model)
    comparison = compare(trained, model.state_dict(), tied, on_tensor)
    return [
        *weight_checks(trained, comparison, tied),
        tokenizer_check(tokenizer, AutoTokenizer.from_pretrained(saved, trust_remote_code=trust)),
        chat_template_check(tokenizer, AutoTokenizer.from_pretrained(saved, trust_remote_code=trust)),
        generation_config_check(folder, saved, generation_config_from),
        load_check(model, tokenizer, loading),
    ]


def weight_checks(trained: Trained, found: Comparison, tied: Mapping[str, str]) -> list[Check]:
    """What holds of the weights."""
    checks = [_accounted(found)]
    if trained.scaling is not None:
        checks.append(_adapter(trained, found))
    checks += [_equal(trained, found, tied), _changed(trained, found)]
    if trained.scaling is not None and trained.base is not None:
        checks.append(_frozen(found))
    if found.not_finite:
        checks.append(failed("finite", f"NaN or infinity in {_some(found.not_finite)}"))
    return checks


def _accounted(found: Comparison) -> Check:
    problems = [
        f"{text} {_some(names)}."
        for text, names in (
            ("Trained, and not in the model:", found.missing),
            ("In the model, and not trained:", found.surplus),
            ("Of another shape than trained:", found.reshaped),
        )
        if names
    ]
    if problems:
        return failed("every tensor", " ".join(problems))
    return ok("every tensor", f"{found.tensors} tensors, each with its place in checkpoint and folder")


def _adapter(trained: Trained, found: Comparison) -> Check:
    scaling, count = trained.scaling, len(trained.layout.factors)
    text = f"rank {scaling.rank}, alpha {scaling.alpha:g} ({scaling.source}), scaling {scaling.value:g}"
    text += f", on {count} weights"
    if len(found.untrained) == count:
        return failed("adapter", f"{text}. B is 0 in all of them: the adapter was never trained.")
    if found.untrained:
        return warning("adapter", f"{text}. B is 0 in {_some(found.untrained)}")
    return ok("adapter", text)


def _equal(trained: Trained, found: Comparison, tied: Mapping[str, str]) -> Check:
    lora = trained.scaling is not None
    name = "equal to base + scaling * B A" if lora else "equal to the checkpoint"
    dtypes = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found.dtypes))
    text = f"max abs deviation {found.fused_deviation if lora else found.deviation:.3g} in {dtypes}"
    if lora:
        text += f" over the adapted weights, {found.deviation:.3g} over all"
    if not found.deviating:
        return ok(name, f"{text}: no more than one rounding")
    text += f", which is more than one rounding in {_some(found.deviating)}"
    pairs = [f"{one} and {tied[one]}" for one in tied if {one, tied[one]} & set(found.deviating)]
    if pairs:
        text += (
            f". {pairs[0]} are one tensor in this model (tie_word_embeddings), and two different ones in the checkpoint"
        )
    return failed(name, text)


def _changed(trained: Trained, found: Comparison) -> Check:
    base = "the base" if trained.base is not None else "the base in the checkpoint"
    if found.changed:
        text = f"{len(found.changed)} of {found.tensors} tensors differ from {base}, by up to {found.change:.3g}"
        lost = len(set(found.moved) - set(found.changed))
        return ok("changed", text + (f"; the change of {lost} more was rounded away" if lost else ""))
    if found.moved:
        return failed(
            "changed",
            f"training changed {len(found.moved)} tensors by up to {found.change:.3g}, all of which was rounded away",
            "--dtype float32",
        )
    return failed("changed", f"all {found.tensors} tensors are those of {base}: nothing was trained")


def _frozen(found: Comparison) -> Check:
    name = "rest equal to the base"
    if found.drifted:
        return failed(
            name,
            f"the frozen weights in the checkpoint are not those of --base in {_some(found.drifted)}: is it the model "
            "that was trained?",
        )
    return ok(name, f"{found.tensors - len(found.fused)} tensors without an adapter are the base's")


def tokenizer_check(tokenizer: PreTrainedTokenizerBase, saved: PreTrainedTokenizerBase) -> Check:
    """The tokenizer is the one of the training."""
    text = "17 + 25 = 42. \\boxed{42}"
    if tokenizer.get_vocab() != saved.get_vocab() or tokenizer(text)["input_ids"] != saved(text)["input_ids"]:
        return failed("tokenizer", "it is not the one that verl saved with the checkpoint")
    return ok("tokenizer", f"{len(tokenizer)} tokens, as in the checkpoint")


def chat_template_check(tokenizer: PreTrainedTokenizerBase, saved: PreTrainedTokenizerBase) -> Check:
    """The chat template is the one of the training; verl cannot train without one."""
    if not tokenizer.chat_template:
        return failed("chat template", "there is none, neither in the checkpoint nor in the folder")
    if tokenizer.chat_template != saved.chat_template:
        return failed("chat template", "it is not the one that verl saved with the checkpoint")
    return ok("chat template", "as in the checkpoint")


def generation_config_check(folder: Path, saved: Path, source: str) -> Check:
    """The folder has a generation config, and it is the one of the training."""
    name = "generation config"
    if not (folder / "generation_config.json").is_file():
        return failed(name, "there is none")
    written = _generation_settings(folder)
    ends = f"ends at {written.get('eos_token_id')}"
    if source == "checkpoint":
        if written != _generation_settings(saved):
            return failed(name, "it is not the one that verl saved with the checkpoint")
        return ok(name, f"as in the checkpoint, {ends}")
    if source == "base":
        return ok(name, f"as in the base, since the checkpoint has none; {ends}")
    return warning(name, f"neither checkpoint nor base has one; made from config.json, {ends}")


def _generation_settings(folder: Path) -> dict[str, Any]:
    settings = GenerationConfig.from_pretrained(folder).to_dict()
    return {key: value for key, value in settings.items() if not key.startswith(("_", "transformers_"))}


def load_check(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, loading: Mapping[str, Any]) -> Check:
    """transformers found every weight, and the model answers with finite logits."""
    problems = [f"{key}: {_some(sorted(map(str, loading[key])))}" for key in sorted(loading) if loading[key]]
    if problems:
        return failed("loads", "; ".join(problems))
    ids = _probe(tokenizer)
    with torch.no_grad():
        logits = model.eval()(torch.tensor([ids])).logits
    if not torch.isfinite(logits).all():
        return failed("loads", "the logits of a short prompt are not finite")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ok(
        "loads", f"{type(model).__name__}, {parameters:,} parameters, finite logits on a prompt of {len(ids)} tokens"
    )


def _probe(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    if not tokenizer.chat_template:
        return tokenizer(PROBE[0]["content"])["input_ids"]
    text = tokenizer.apply_chat_template(PROBE, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
