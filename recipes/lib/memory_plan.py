# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""An estimate of the memory that a recipe needs on each GPU, from its composed verl config. Arithmetic only.

It is an estimate, not a measurement: it leaves out fragmentation, and reckons with `OVERHEAD_GB` for the CUDA context,
communication buffers and what vLLM keeps while it sleeps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GB = 1e9
OVERHEAD_GB = 4.0
BF16, FP32 = 2, 4


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a Qwen2-like decoder, named as in its ``config.json``."""

    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    tie_word_embeddings: bool

    @property
    def kv_size(self) -> int:
        """Width of the key, and of the value, of one token in one layer."""
        return self.hidden_size // self.num_attention_heads * self.num_key_value_heads

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        """Input and output widths of a layer's seven linear maps: q, k, v, o, gate, up, down."""
        h, f, kv = self.hidden_size, self.intermediate_size, self.kv_size
        return (h, h), (h, kv), (h, kv), (h, h), (h, f), (h, f), (f, h)

    @property
    def parameters(self) -> int:
        """Number of parameters, without norms and biases (below 0.1 % of them)."""
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return embeddings + self.num_hidden_layers * sum(a * b for a, b in self.linears)

    def lora_parameters(self, rank: int) -> int:
        """Number of parameters of a LoRA adapter on all linear maps of the layers."""
        return self.num_hidden_layers * rank * sum(a + b for a, b in self.linears)


KNOWN_SHAPES = {
    "Qwen/Qwen2.5-3B": ModelShape(36, 2048, 11008, 16, 2, 151936, True),
    "Qwen/Qwen2.5-7B": ModelShape(28, 3584, 18944, 28, 4, 152064, False),
}
"""From the models' config.json on the Hugging Face hub, so that a dry run needs no network."""


@dataclass(frozen=True)
class Plan:
    """Memory per GPU in GB: what is always there, and what each phase adds."""

    resident: dict[str, float]
    generation: dict[str, float]
    update: dict[str, float]
    notes: tuple[str, ...]

    @property
    def peak(self) -> float:
        """The larger of the two phases, in GB."""
        return sum(self.resident.values()) + max(sum(self.generation.values()), sum(self.update.values()))


def model_shape(path: str) -> ModelShape:
    """The sizes of a model: of a known name, or from the ``config.json`` of a local folder.

    Raises:
        ValueError: Neither is available.
    """
    if path in KNOWN_SHAPES:
        return KNOWN_SHAPES[path]
    file = Path(path).expanduser() / "config.json"
    if not file.is_file():
        raise ValueError(
            f"no memory plan for actor_rollout_ref.model.path={path}: neither one of {', '.join(KNOWN_SHAPES)} "
            "nor a local folder with a config.json"
        )
    values = json.loads(file.read_text())
    fields = ModelShape.__dataclass_fields__
    missing = [name for name in fields if name not in values and name != "tie_word_embeddings"]
    if missing:
        raise ValueError(f"no memory plan for {path}: its config.json lacks {', '.join(missing)}")
    return ModelShape(**{name: values.get(name, False) for name in fields})


def memory_plan(config: Any, shape: ModelShape, gpu_gb: float, reference: bool) -> Plan:
    """Estimate the memory of one GPU.

    Args:
        config: The whole composed verl config.
        shape: Sizes of the model.
        gpu_gb: Memory of one GPU in GB, of which vLLM takes ``rollout.gpu_memory_utilization``.
        reference: Whether the run needs a reference policy.
    """
    model, actor, rollout = (config.actor_rollout_ref[name] for name in ("model", "actor", "rollout"))
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    megatron = actor.strategy == "megatron"
    engine = actor.megatron if megatron else actor.fsdp_config
    tensor = engine.tensor_model_parallel_size if megatron else 1
    shards = tensor * engine.pipeline_model_parallel_size if megatron else gpus
    # FSDP keeps float32 weights by default; frozen Megatron weights stay in bfloat16.
    weight_bytes = BF16 if megatron or engine.model_dtype == "bf16" else FP32
    rank = max(model.lora_rank, model.lora.rank)
    weights = shape.parameters * weight_bytes / shards / GB
    trained = shape.lora_parameters(rank) if rank else shape.parameters
    # Gradient and Adam's two moments in float32; the adapter's own weights are added to those of the model.
    optimizer = trained * (3 * FP32 + (FP32 if rank else 0)) / shards / GB
    resident = {"gradients and optimizer" + (f" of the LoRA adapter (rank {rank})" if rank else ""): optimizer}
    resident["CUDA context, buffers, sleeping vLLM (flat)"] = OVERHEAD_GB
    generation, update = {}, {}
    if engine.param_offload:
        update["actor weights"] = weights
    else:
        resident["actor weights"] = weights
    if reference and not rank:
        update["reference weights"] = weights
    resident["reference weights" + (": none, the actor without its adapter" if rank else ": see update")] = 0.0

    tokens, vocab, hidden = actor.ppo_max_token_len_per_gpu, shape.vocab_size, shape.hidden_size
    layers = shape.num_hidden_layers / (engine.pipeline_model_parallel_size if megatron else 1)
    update["activations, one per layer (checkpointing)"] = layers * tokens * hidden * BF16 / tensor / GB
    one_layer = (8 * hidden + 4 * shape.intermediate_size) * tokens * BF16 / tensor
    update["activations of the layer being recomputed"] = one_layer / GB
    logits = tokens * vocab * BF16 / tensor / GB
    copies = 2 if rollout.temperature == 1.0 else 3
    chunk = min(actor.entropy_from_logits_chunk_size, tokens) if actor.entropy_from_logits_with_chunking else tokens
    entropy = chunk * vocab * 3 * FP32 / tensor / GB
    update[f"logits and their gradient ({tokens} tokens)"] = max(copies * logits, (copies - 1) * logits + entropy)
    if not megatron:
        update["largest gathered FSDP unit"] = vocab * hidden * BF16 / GB

    budget = rollout.gpu_memory_utilization * gpu_gb
    rollout_weights = shape.parameters * BF16 / rollout.tensor_model_parallel_size / GB
    generation["vLLM: weights"] = rollout_weights
    generation["vLLM: KV cache and work space"] = budget - rollout_weights
    kv_token = 2 * shape.num_hidden_layers * shape.kv_size * BF16 / rollout.tensor_model_parallel_size
    length = config.data.max_prompt_length + config.data.max_response_length
    replicas = max(1, gpus // rollout.tensor_model_parallel_size)
    sequences = -(-config.data.train_batch_size * rollout.n // replicas)
    needed = min(sequences, rollout.max_num_seqs) * length * kv_token / GB
    notes = [
        f"{sequences} responses per vLLM replica and step; all at full length ({length} tokens) would fill "
        f"{needed:.1f} GB of KV cache, of {budget - rollout_weights:.1f} GB at most"
    ]
    if budget < rollout_weights + 2:
        notes.append("vLLM has no room for a KV cache: raise ROLLOUT_GPU_MEM_UTIL or ROLLOUT_TP")
    return Plan(resident, generation, update, tuple(notes))


def render(plan: Plan, gpu_gb: float) -> str:
    """The plan as a table in plain text, with what to change if it does not fit."""
    lines = [f"Memory plan per GPU of {gpu_gb:g} GB (an estimate, not measured)"]
    for title, part in (("always", plan.resident), ("generation", plan.generation), ("update", plan.update)):
        lines.append(f"  {title}")
        lines += [f"    {value:7.1f} GB  {name}" for name, value in part.items()]
    lines.append(f"  peak {plan.peak:.1f} GB")
    lines += [f"  note: {note}" for note in plan.notes]
    if plan.peak > gpu_gb:
        lines.append(
            "  TOO MUCH: lower PPO_MAX_TOKEN_LEN_PER_GPU or ROLLOUT_GPU_MEM_UTIL, set PARAM_OFFLOAD=True, "
            "or raise NGPUS_PER_NODE"
        )
    return "\n".join(lines)
