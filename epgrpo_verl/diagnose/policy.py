# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The model under test: what it says, how sure it was of each token, and what else it could have said there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from epgrpo_verl.cpu.generation import Continuation, Row, generate_rows
from epgrpo_verl.cpu.sampling import inverse_cdf_sample
from epgrpo_verl.evaluation.backend_hf import HFBackend
from epgrpo_verl.evaluation.errors import EvaluationError

# Logits that are held at once, in float32: 1 GiB, and 128 MiB of float64 for the draws.
_LOGITS, _DRAWN_LOGITS = 1 << 28, 1 << 24


@dataclass(frozen=True)
class Look:
    """What the policy made of the tokens of one response.

    Attributes:
        entropies: (L,) entropy at each token, in nats, at the sampling temperature.
        replacements: (L,) ids of other tokens, see `replace_tokens`.
        replacement_probs: (L,) probability that the policy gave each.
    """

    entropies: list[float]
    replacements: list[int]
    replacement_probs: list[float]


def token_entropy(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Entropy of the next token, ``-sum_v p_v log p_v`` with ``p = softmax(logits / temperature)``.

    Args:
        logits: (..., V).
        temperature: Above 0.

    Returns:
        (...,) float32, in nats.
    """
    return torch.special.entr(torch.softmax(logits.float() / temperature, -1)).sum(-1)


def replace_tokens(
    logits: torch.Tensor, tokens: torch.Tensor, uniforms: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws another token from the policy at each position, with the original left out.

    Args:
        logits: (L, V).
        tokens: (L,) int64, the originals.
        uniforms: (L,) float64 in [0, 1), one random number for each draw.
        temperature: Above 0.

    Returns:
        (L,) the tokens, and (L,) the probability that the policy gives each of them (the original not left out).
    """
    log_probs = torch.log_softmax(logits.float() / temperature, -1)
    others = log_probs.scatter(-1, tokens.unsqueeze(-1), -torch.inf)
    drawn = inverse_cdf_sample(others, uniforms)
    return drawn, log_probs.gather(-1, drawn.unsqueeze(-1)).squeeze(-1).exp()


class Policy(HFBackend):
    """A model in this process, through transformers."""

    @torch.inference_mode()
    def look(
        self,
        rows: Sequence[tuple[Sequence[int], Sequence[int]]],
        uniforms: Sequence[Sequence[float]],
        progress: Callable[[int], None] = lambda more: None,
    ) -> list[Look]:
        """One forward pass over given responses.

        Args:
            rows: Token ids of prompt and response; a response has one token or more.
            uniforms: For each token of each response, a random number in [0, 1).
            progress: Told how many more responses are done.

        Returns:
            One look per row.

        Raises:
            EvaluationError: The logits are not finite.
        """
        looks: dict[int, Look] = {}
        for batch in self._batches([len(prompt) + len(response) for prompt, response in rows]):
            width = max(len(rows[row][0]) + len(rows[row][1]) for row in batch)
            ids = torch.full((len(batch), width), self._pad)
            mask = torch.zeros_like(ids)
            for index, row in enumerate(batch):
                sequence = [*rows[row][0], *rows[row][1]]
                ids[index, : len(sequence)] = torch.tensor(sequence)
                mask[index, : len(sequence)] = 1
            device = self._network.device
            logits = self._network(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False).logits
            for index, row in enumerate(batch):
                prompt, response = rows[row]
                of_response = logits[index, len(prompt) - 1 : len(prompt) + len(response) - 1]
                looks[row] = self._look_at(of_response, response, uniforms[row])
            progress(len(batch))
        return [looks[row] for row in range(len(rows))]

    def _look_at(self, logits: torch.Tensor, tokens: Sequence[int], uniforms: Sequence[float]) -> Look:
        originals = torch.tensor(tokens, device=logits.device)
        randoms = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
        found = Look([], [], [])
        size = max(1, _DRAWN_LOGITS // logits.shape[-1])
        for start in range(0, len(tokens), size):
            part, temperature = slice(start, start + size), self._params.temperature
            entropies = token_entropy(logits[part], temperature)
            if not torch.isfinite(entropies).all():
                raise EvaluationError("the model's logits are not finite: its weights contain NaN or inf, or overflow")
            drawn, probs = replace_tokens(logits[part], originals[part], randoms[part], temperature)
            found.entropies.extend(entropies.tolist())
            found.replacements.extend(drawn.tolist())
            found.replacement_probs.extend(probs.tolist())
        return found

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows of similar length together, as many as the batch size and the memory for their logits allow."""
        vocabulary = self._network.get_output_embeddings().weight.shape[0]
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
            longest = lengths[batch[0]] if batch else 0
            if batch and (len(batch) == self._batch_size or (len(batch) + 1) * longest * vocabulary > _LOGITS):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def continue_rows(self, rows: Sequence[Row], progress: Callable[[int], None]) -> list[Continuation]:
        """Goes on from given tokens, each row with its own seed and limit.

        Args:
            rows: Token ids of prompt and begun response.
            progress: Told how many more rows are done.

        Returns:
            One continuation per row.
        """
        found: dict[int, Continuation] = {}
        # Rows with as much left to say together, so that few wait for the others.
        order = sorted(range(len(rows)), key=lambda row: (rows[row].max_tokens, len(rows[row].prompt)))
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            part = [rows[row] for row in batch]
            continuations = generate_rows(self._network, part, self._params, self._end_tokens, self._pad)
            found.update(zip(batch, continuations, strict=True))
            progress(len(batch))
        return [found[row] for row in range(len(rows))]
