# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""EP-GRPO, slow and obvious: loops over Python floats, written from the equations and not from the package.

It imports nothing of `epgrpo_verl`. Bucket edges are decided in exact fractions.
"""

import math
from fractions import Fraction

import numpy as np

DEFAULTS = {
    "gamma": 5.0,
    "lam": 0.1,
    "eta": 0.2,
    "num_buckets": 10,
    "reward_threshold": 0.5,
    "gate": True,
    "progress": True,
    "zero_variance": True,
    "gate_progress": True,
    "gate_normalize": False,
    "entropy_scope": "group",
    "bucket_scope": "group",
    "gate_eps": 1e-6,
    "progress_eps": 1e-4,
    "zero_variance_atol": 1e-6,
    "eta_warmup_steps": 0,
    "advantage_clip": None,
}


def sign(x, atol):
    return 0 if abs(x) <= atol else math.copysign(1, x)


def mean_and_population_std(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def slow_ep_grpo(
    token_level_rewards,
    response_mask,
    entropy,
    old_log_probs,
    ref_log_prob,
    index,
    norm_adv_by_std=True,
    step=None,
    outcome_row=None,
    **settings,
):
    """Computes EP-GRPO's advantages with loops.

    Args:
        token_level_rewards, response_mask, entropy, old_log_probs, ref_log_prob: (bs, T) lists, arrays or tensors.
        index: (bs,) group keys.
        norm_adv_by_std: Whether equation 1 divides by the std.
        step: Training step, for the warm-up of eta.
        outcome_row: (bs,) the row that carries each row's outcome, or None for its own.
        **settings: As the fields of `EPGRPOConfig`.

    Returns:
        A dict of float64 arrays by the names of `EPGRPOResult`'s fields: (bs, T) advantages, outcome, progress, gate,
        progress_coordinate, bucket, progress_slope, and (bs,) anchor, zero_variance, outcome_reward,
        outcome_advantage.
    """
    unknown = set(settings) - set(DEFAULTS)
    assert not unknown, unknown
    c = {**DEFAULTS, **settings}
    rewards, mask, entropy, old, ref = (
        x.tolist() if hasattr(x, "tolist") else x
        for x in (token_level_rewards, response_mask, entropy, old_log_probs, ref_log_prob)
    )
    index = list(index.tolist() if hasattr(index, "tolist") else index)
    rows, columns = range(len(mask)), range(len(mask[0]))
    carrier = list(rows) if outcome_row is None else [int(i) for i in outcome_row]
    valid = {i: [t for t in columns if mask[i][t]] for i in rows}
    tokens = [(i, t) for i in rows for t in valid[i]]
    votes = [i for i in rows if valid[i] and carrier[i] == i]

    # Equation 1, and which groups have collapsed.
    r = [math.fsum(rewards[i]) if valid[i] else 0.0 for i in rows]
    A, means = [0.0 for _ in rows], [0.0 for _ in rows]
    collapsed, all_equal = [False for _ in rows], [False for _ in rows]
    for i in votes:
        members = [r[j] for j in votes if index[j] == index[i]]
        spread = float(np.float32(max(members)) - np.float32(min(members)))
        all_equal[i] = spread <= c["zero_variance_atol"]
        if len(members) == 1:
            mean, std = 0.0, 1.0
        else:
            mean = math.fsum(members) / len(members)
            std = math.sqrt(math.fsum((x - mean) ** 2 for x in members) / (len(members) - 1))
        means[i] = mean
        A[i] = (r[i] - mean) / (std + 1e-6) if norm_adv_by_std else r[i] - mean
        if len(members) > 1 and all_equal[i]:
            A[i] = 0.0
    for i in rows:
        siblings = [j for j in votes if index[j] == index[i]]
        collapsed[i] = bool(valid[i]) and len(siblings) > 1 and all_equal[siblings[0]]

    # Equation 6.
    d = [0.0 for _ in rows]
    for i in votes:
        equal_rule = all_equal[i] and c["zero_variance"]
        compared_with = c["reward_threshold"] if equal_rule else means[i]
        d[i] = float(sign(r[i] - compared_with, c["zero_variance_atol"]))
    r, A, d = ([x[carrier[i]] if valid[i] else 0.0 for i in rows] for x in (r, A, d))

    def scope_of(scope, i):
        return {"group": index[i], "batch": "all", "sequence": i}[scope]

    # Equation 2.
    H = {(i, t): max(entropy[i][t], 0.0) for i, t in tokens}
    W = {}
    for scope in {scope_of(c["entropy_scope"], i) for i, _ in tokens}:
        inside = [(i, t) for i, t in tokens if scope_of(c["entropy_scope"], i) == scope]
        mu, sigma = mean_and_population_std([H[k] for k in inside])
        for k in inside:
            W[k] = sigmoid(c["gamma"] * (H[k] - mu) / (sigma + c["gate_eps"])) if c["gate"] else 1.0
        mean_gate = math.fsum(W[k] for k in inside) / len(inside)
        if c["gate_normalize"]:
            W.update({k: W[k] / mean_gate for k in inside})

    # Equation 4.
    tau, bucket = {}, {}
    for i in rows:
        weights = [Fraction(H[i, t]) for t in valid[i]]
        if sum(weights) == 0:
            weights = [Fraction(1) for _ in weights]
        cumulative = Fraction(0)
        for t, weight in zip(valid[i], weights, strict=True):
            cumulative += weight
            tau[i, t] = cumulative / sum(weights)
            bucket[i, t] = min(math.floor(tau[i, t] * c["num_buckets"]), c["num_buckets"] - 1)

    # Equations 3, 5 and 7.
    eta = c["eta"] * (min(1.0, step / c["eta_warmup_steps"]) if c["eta_warmup_steps"] else 1.0)
    s = {(i, t): c["lam"] * (old[i][t] - ref[i][t]) for i, t in tokens}
    progress, slope = {k: 0.0 for k in tokens}, {k: 0.0 for k in tokens}
    if c["progress"]:
        for key in {(scope_of(c["bucket_scope"], i), bucket[i, t]) for i, t in tokens}:
            inside = [(i, t) for i, t in tokens if (scope_of(c["bucket_scope"], i), bucket[i, t]) == key]
            mu, sigma = mean_and_population_std([s[k] for k in inside])
            if max(s[k] for k in inside) == min(s[k] for k in inside):
                continue
            for i, t in inside:
                weight = eta * d[i] * (W[i, t] if c["gate_progress"] else 1.0)
                progress[i, t] = weight * (s[i, t] - mu) / (sigma + c["progress_eps"])
                slope[i, t] = weight * c["lam"] / (sigma + c["progress_eps"])

    # Equation 8.
    total = {(i, t): W[i, t] * A[i] + progress[i, t] for i, t in tokens}
    if c["advantage_clip"] is not None:
        bound = c["advantage_clip"]
        slope = {k: 0.0 if abs(total[k]) > bound else slope[k] for k in tokens}
        total = {k: max(-bound, min(bound, total[k])) for k in tokens}

    def table(values, masked=0.0):
        return np.array([[float(values.get((i, t), masked)) for t in columns] for i in rows])

    return {
        "advantages": table(total),
        "outcome": table({(i, t): W[i, t] * A[i] for i, t in tokens}),
        "progress": table(progress),
        "gate": table(W),
        "progress_coordinate": table(tau),
        "bucket": table(bucket, masked=-1),
        "progress_slope": table(slope),
        "anchor": np.array(d),
        "zero_variance": np.array(collapsed),
        "outcome_reward": np.array(r),
        "outcome_advantage": np.array(A),
    }
