# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a step that are measured, through verl's own functions where verl has one.

``import verl`` loads the plugin, which registers the estimator and the policy loss that are called here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import verl  # noqa: F401  loads the plugin
import verl.utils.torch_functional as verl_F
import verl.workers.engine_workers as engine_workers
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import PreTrainedModel
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.utils.tensordict_utils import assign_non_tensor_data
from verl.workers.config import FSDPActorConfig

from benchmarks.gpu.sizes import Sizes
from epgrpo_verl.plugin.feed import Feed, feeding
from epgrpo_verl.plugin.policy_loss import SLOPE

ALGORITHM = OmegaConf.create({"norm_adv_by_std_in_grpo": True, "ep_grpo": {}})
CHUNK = 2048
"""verl's default ``entropy_from_logits_chunk_size``."""


def make_logits(tokens: int, vocabulary: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Draws logits, (tokens, vocabulary)."""
    generator = torch.Generator(device).manual_seed(0)
    return torch.randn(tokens, vocabulary, device=device, dtype=dtype, generator=generator)


def entropy(logits: torch.Tensor, chunked: bool) -> torch.Tensor:
    """verl's entropy of each token, all at once or ``CHUNK`` tokens at a time."""
    if chunked:
        return verl_F.entropy_from_logits_with_chunking(logits, chunk_size=CHUNK)
    return verl_F.entropy_from_logits(logits)


def make_batch(rows: int, columns: int, group: int, device: torch.device) -> dict[str, Any]:
    """Draws what an estimator gets, with responses of 50 to 100 % of the columns and a reward on the last token.

    A fifth of the groups has equal rewards. Each token was chosen between two, so that entropy and log-prob agree.
    """
    generator = torch.Generator().manual_seed(0)

    def probability() -> torch.Tensor:
        return torch.rand(rows, columns, generator=generator) * 0.9 + 0.05

    lengths = torch.randint(columns // 2, columns + 1, (rows,), generator=generator)
    mask = (torch.arange(columns) < lengths[:, None]).long()
    groups = torch.arange(rows) // group
    outcome = torch.randint(0, 2, (rows,), generator=generator).float()
    outcome = torch.where(groups % 5 == 0, 0.0, outcome)
    rewards = torch.zeros(rows, columns)
    rewards[torch.arange(rows), lengths - 1] = outcome
    chosen, by_reference = probability(), probability()
    tensors = {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "entropy": torch.special.entr(chosen) + torch.special.entr(1 - chosen),
        "old_log_probs": chosen.log(),
        "ref_log_prob": by_reference.log(),
    }
    uid = np.array([f"prompt{number}" for number in groups.tolist()], dtype=object)
    return {**{name: tensor.to(device) for name, tensor in tensors.items()}, "uid": uid}


def advantage(estimator: str, batch: dict[str, Any], wants_slope: bool = False) -> dict[str, torch.Tensor]:
    """Computes advantages as verl's trainer does: an estimator by its name, ep_grpo with its checks and metrics.

    Returns:
        ``advantages``, and for the policy-loss hook ``ep_grpo_progress_slope``.
    """
    feed = Feed(wants_slope=wants_slope)
    with feeding(feed):
        advantages, _ = get_adv_estimator_fn(estimator)(
            token_level_rewards=batch["token_level_rewards"],
            response_mask=batch["response_mask"],
            index=batch["uid"],
            config=ALGORITHM,
            **({"batch": batch} if estimator == "ep_grpo" else {}),
        )
    slope = {SLOPE: feed.result.progress_slope} if wants_slope else {}
    return {"advantages": advantages, **slope}


def log_probs_and_logits(
    model: PreTrainedModel, tokens: torch.Tensor, prompt: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs the model over a micro-batch.

    Args:
        model: The model.
        tokens: (rows, prompt + response) ids.
        prompt: Tokens of the prompts.

    Returns:
        Log-probs (rows, response) by verl's function, and the logits (rows, response, vocabulary) that predict the
        responses.
    """
    logits = model(input_ids=tokens, use_cache=False).logits[:, prompt - 1 : -1]
    return verl_F.logprobs_from_logits(logits, tokens[:, prompt:]), logits


class Step:
    """The passes of a training step without generation, on full rows.

    Args:
        model: The policy.
        reference: A second model of the same shape. Its weights are moved a little, as if the policy had been trained.
        sizes: The batch.
        device: Where the models are.
    """

    def __init__(self, model: PreTrainedModel, reference: PreTrainedModel, sizes: Sizes, device: torch.device):
        self.model, self.reference, self.sizes, self.device = model, reference, sizes, device
        with torch.no_grad():
            for weight in reference.parameters():
                weight.mul_(0.95)  # a step that bfloat16 can hold
        generator = torch.Generator().manual_seed(1)
        shape = (sizes.rows, sizes.prompt + sizes.response)
        self.tokens = torch.randint(0, sizes.vocabulary, shape, generator=generator).to(device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def _micro_batches(self) -> list[slice]:
        size = self.sizes.micro_rows
        return [slice(start, start + size) for start in range(0, self.sizes.rows, size)]

    @torch.no_grad()
    def old_log_prob(self, chunked: bool) -> dict[str, torch.Tensor]:
        """The actor's pass for old log-probs and entropy. verl's V1 trainer does both for every estimator."""
        parts = []
        for rows in self._micro_batches():
            log_probs, logits = log_probs_and_logits(self.model, self.tokens[rows], self.sizes.prompt)
            flat = logits.reshape(-1, logits.shape[-1])
            parts.append((log_probs.float(), entropy(flat, chunked).float().view(log_probs.shape)))
        old, entropies = (torch.cat(tensors).cpu() for tensors in zip(*parts, strict=True))
        return {"old_log_probs": old, "entropy": entropies}

    @torch.no_grad()
    def ref_log_prob(self) -> dict[str, torch.Tensor]:
        """The reference's pass, which GRPO needs only with a KL term."""
        parts = [
            log_probs_and_logits(self.reference, self.tokens[rows], self.sizes.prompt)[0].float()
            for rows in self._micro_batches()
        ]
        return {"ref_log_prob": torch.cat(parts).cpu()}

    def update(self, loss_mode: str, batch: dict[str, torch.Tensor]) -> None:
        """One optimizer step on the whole batch, with verl's ``ppo_loss`` on every micro-batch."""
        config = FSDPActorConfig(
            strategy="fsdp2",
            rollout_n=self.sizes.group,
            ppo_mini_batch_size=self.sizes.rows,
            ppo_micro_batch_size_per_gpu=self.sizes.micro_rows,
            policy_loss={"_target_": "verl.workers.config.PolicyLossConfig", "loss_mode": loss_mode},
        )
        for rows in self._micro_batches():
            self._loss(config, {name: tensor[rows].to(self.device) for name, tensor in batch.items()}, rows).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _loss(self, config: FSDPActorConfig, batch: dict[str, torch.Tensor], rows: slice) -> torch.Tensor:
        tokens, prompt = self.tokens[rows], self.sizes.prompt
        log_probs, _ = log_probs_and_logits(self.model, tokens, prompt)
        # verl's model output covers whole sequences: position t is about token t + 1.
        sequences = torch.nn.functional.pad(log_probs.float(), (prompt - 1, 1))
        output = {"log_probs": torch.nested.as_nested_tensor(list(sequences), layout=torch.jagged)}
        data = TensorDict(dict(batch), batch_size=len(tokens))
        data["prompts"], data["responses"] = tokens[:, :prompt], tokens[:, prompt:]
        data["attention_mask"] = torch.ones_like(tokens)
        count = self.sizes.rows * self.sizes.response
        for name, value in {"dp_size": 1, "batch_num_tokens": count, "global_batch_size": self.sizes.rows}.items():
            assign_non_tensor_data(data, name, value)
        return engine_workers.ppo_loss(config, output, data)[0]
