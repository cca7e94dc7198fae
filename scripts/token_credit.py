# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/token_credit.png: the advantage of each token under GRPO and under EP-GRPO, on real rollouts.

The policy is a checkpoint of the quickstart, the reference is the model it started from:

    STEPS=10 OUT="$PWD/runs/token_credit" bash recipes/run_cpu_quickstart.sh
    .venv-cpu/bin/python scripts/token_credit.py --data runs/data/cpu_quickstart-easy-seed0 --run runs/token_credit
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import torch
import typer
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage
from epgrpo_verl.quickstart.model import encode_prompts
from epgrpo_verl.quickstart.task import compute_score, parse_steps

GRPO = EPGRPOConfig(gate=False, progress=False, zero_variance=False)
EP_GRPO = EPGRPOConfig()


@dataclass(frozen=True)
class Group:
    """Responses to one prompt, with the advantages of their tokens.

    Attributes:
        prompt: The prompt.
        texts: The responses without their end token.
        rewards: One per response.
        advantages: For GRPO and EP-GRPO, shape (n, T).
        lengths: Valid tokens of each response, its end token included.
    """

    prompt: str
    texts: list[str]
    rewards: list[float]
    advantages: dict[str, torch.Tensor]
    lengths: list[int]


def load_checkpoint(run: Path, step: int) -> PreTrainedModel:
    """Merges verl's checkpoint of a step with verl's own tool, and loads it."""
    actor = run / "checkpoints" / f"global_step_{step}" / "actor"
    with tempfile.TemporaryDirectory() as folder:
        merge = [
            "-m",
            "verl.model_merger",
            "merge",
            "--backend",
            "fsdp",
            "--local_dir",
            str(actor),
            "--target_dir",
            folder,
        ]
        subprocess.run([sys.executable, *merge], check=True, stdout=subprocess.DEVNULL)
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def token_log_probs(model: PreTrainedModel, ids: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Gives log-probability and entropy of the tokens from column ``start`` on, both of shape (n, T), in nats."""
    log_probs = torch.log_softmax(model(ids).logits[:, start - 1 : -1].float(), dim=-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return log_probs.gather(-1, ids[:, start:].unsqueeze(-1)).squeeze(-1), entropy


@torch.no_grad()
def roll_out(
    policy: PreTrainedModel, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, row: pd.Series, count: int
) -> Group:
    """Samples a group at temperature 1 and computes its advantages."""
    prompt = row["prompt"][0]["content"]
    prompt_ids = torch.tensor(encode_prompts(tokenizer, [prompt]) * count)
    start = prompt_ids.shape[1]
    ids = policy.generate(prompt_ids, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=36)
    responses = ids[:, start:]
    ended = (responses == tokenizer.eos_token_id).cumsum(-1)
    mask = ((ended - (responses == tokenizer.eos_token_id).long()) == 0).long()
    lengths = mask.sum(-1)
    texts = tokenizer.batch_decode([r[:n] for r, n in zip(responses, lengths, strict=True)], skip_special_tokens=True)
    rewards = [compute_score("", text, row["reward_model"]["ground_truth"])["score"] for text in texts]
    token_rewards = torch.zeros(mask.shape)
    token_rewards[torch.arange(count), lengths - 1] = torch.tensor(rewards)

    log_probs, entropy = token_log_probs(policy, ids, start)
    ref_log_probs, _ = token_log_probs(reference, ids, start)
    index = [prompt] * count
    advantages = {
        name: ep_grpo_advantage(token_rewards, mask, entropy, log_probs, ref_log_probs, index, config).advantages
        for name, config in {"GRPO": GRPO, "EP-GRPO": EP_GRPO}.items()
    }
    return Group(prompt, texts, rewards, advantages, lengths.tolist())


def draw_group(axes: Axes, group: Group, method: str, colours: ScalarMappable) -> None:
    """Draws a response per line: one box per character, underlined where its step is wrong."""
    advantages = group.advantages[method]
    width = max(group.lengths)
    for line, (text, reward) in enumerate(zip(group.texts, group.rewards, strict=True)):
        for column in range(group.lengths[line]):
            colour = colours.to_rgba(advantages[line, column].item())
            axes.add_patch(_box(column, line, colour))
            # A byte tokenizer: the characters are the tokens, and the end token comes last.
            character = text[column] if column < len(text) else "\u25a0"
            ink = "white" if sum(colour[:3]) < 1.2 else "black"
            axes.text(
                column + 0.5,
                line + 0.52,
                character,
                ha="center",
                va="center",
                fontsize=9,
                family="monospace",
                color=ink,
            )
        for step in parse_steps(group.prompt, text):
            if not step.right:
                axes.plot([step.start + 0.15, step.end - 0.15], [line + 0.93] * 2, color="black", linewidth=1.4)
        verdict = "right" if reward else "wrong"
        axes.text(
            -0.4, line + 0.5, verdict, ha="right", va="center", fontsize=8, color="black" if reward else "#666666"
        )
    axes.set_xlim(-2.8, width + 0.2)
    axes.set_ylim(len(group.texts) + 0.1, -0.1)
    axes.set_axis_off()


def _box(column: int, line: int, colour: tuple[float, ...]) -> Rectangle:
    return Rectangle((column + 0.03, line + 0.03), 0.94, 0.94, facecolor=colour, edgecolor="#dddddd", linewidth=0.4)


def draw(groups: dict[str, Group], out: Path) -> None:
    """Draws a column per group, GRPO above and EP-GRPO below, all on one colour scale."""
    limit = max(float(a.abs().max()) for group in groups.values() for a in group.advantages.values())
    colours = ScalarMappable(TwoSlopeNorm(0.0, -limit, limit), "RdBu")
    figure = Figure(figsize=(5.6 * len(groups), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(groups), squeeze=False)
    for column, (title, group) in enumerate(groups.items()):
        for row, method in enumerate(("GRPO", "EP-GRPO")):
            draw_group(grid[row][column], group, method, colours)
            grid[row][column].set_title(
                f"{method}: {title}, {group.prompt}" if row == 0 else method, fontsize=10, loc="left"
            )
    bar = figure.colorbar(colours, ax=grid, shrink=0.6, pad=0.01)
    bar.set_label("advantage of the token", fontsize=9)
    figure.supxlabel("Underlined: the step is wrong. Black square: end of the response.", fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)


def main(
    data: Annotated[Path, typer.Option(help="Folder of `python -m epgrpo_verl.quickstart prepare`.")],
    run: Annotated[Path, typer.Option(help="Folder of the run, with its checkpoints.")],
    step: Annotated[int, typer.Option(help="Checkpoint to take.")] = 10,
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("docs/images/token_credit.png"),
    count: Annotated[int, typer.Option(help="Responses in a group.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the rollouts.")] = 0,
) -> None:
    """Takes the first validation prompts whose groups are mixed (a third to two thirds right), and all wrong."""
    torch.manual_seed(seed)
    policy = load_checkpoint(run, step)
    reference = AutoModelForCausalLM.from_pretrained(data / "model", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(data / "model")
    groups: dict[str, Group] = {}
    for _, row in pd.read_parquet(data / "test.parquet").iterrows():
        group = roll_out(policy, reference, tokenizer, row, count)
        right = sum(group.rewards) / count
        if 1 / 3 <= right <= 2 / 3:  # enough of both
            groups.setdefault("a mixed group", group)
        elif right == 0:
            groups.setdefault("a group that is all wrong", group)
        if len(groups) == 2:
            break
    if not groups:
        raise SystemExit("no group was mixed or all wrong: take an earlier checkpoint with --step")
    draw(dict(sorted(groups.items(), reverse=True)), out)
    print(out)


if __name__ == "__main__":
    typer.run(main)
