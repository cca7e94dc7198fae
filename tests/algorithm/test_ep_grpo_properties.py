# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Properties that hold for any batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage, ep_grpo_metrics

settings.register_profile("ep_grpo", max_examples=40, deadline=None, derandomize=True)
settings.load_profile("ep_grpo")

REWARDS = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0])
CONFIGS = st.builds(
    EPGRPOConfig,
    gamma=st.sampled_from([0.0, 1.0, 5.0]),
    lam=st.sampled_from([0.0, 0.1, 1.0]),
    num_buckets=st.sampled_from([1, 2, 10, 50]),
    gate=st.booleans(),
    gate_progress=st.booleans(),
    gate_normalize=st.booleans(),
    zero_variance=st.booleans(),
    entropy_scope=st.sampled_from(["group", "batch", "sequence"]),
    bucket_scope=st.sampled_from(["group", "batch"]),
)


@st.composite
def batches(draw, rewards=REWARDS):
    """(rewards, mask, entropy, old, ref) float32 tensors of one shape, and group keys; rows may have no valid token."""
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 9))

    def table(elements, dtype=np.float32):
        return torch.from_numpy(draw(hnp.arrays(dtype, (rows, columns), elements=elements)))

    scores = torch.zeros(rows, columns)
    scores[:, -1] = torch.tensor(draw(st.lists(rewards, min_size=rows, max_size=rows)))
    mask = table(st.booleans(), np.bool_)
    # Multiples of 1/256, so that spreads are either 0 or not small, as real log-probs are.
    entropy = table(st.integers(0, 512)) / 256
    old = table(st.integers(-1024, 0)) / 256
    ref = table(st.integers(-1024, 0)) / 256
    index = draw(st.lists(st.sampled_from("abc"), min_size=rows, max_size=rows))
    return scores, mask, entropy, old, ref, index


def close(actual, expected, scale=1.0):
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6 * scale)


@given(batches(), CONFIGS, st.randoms(use_true_random=False))
def test_permuting_rows_permutes_the_output(batch, config, random):
    order = list(range(len(batch[0])))
    random.shuffle(order)
    permuted = ep_grpo_advantage(*(x[order] for x in batch[:-1]), [batch[-1][i] for i in order], config)
    result = ep_grpo_advantage(*batch, config)
    for name in ("advantages", "outcome", "progress", "gate", "anchor", "bucket", "progress_coordinate"):
        close(getattr(permuted, name), getattr(result, name)[order])


@given(batches(), CONFIGS, st.integers(1, 5), st.sampled_from([0.0, 4.9, 1e4, float("nan"), float("-inf")]))
def test_padding_columns_change_nothing(batch, config, extra, garbage):
    columns = batch[0].shape[1]
    padded = [torch.nn.functional.pad(batch[0], (0, extra)), torch.nn.functional.pad(batch[1], (0, extra))]
    padded += [torch.nn.functional.pad(x, (0, extra), value=garbage) for x in batch[2:-1]]
    wide, result = ep_grpo_advantage(*padded, batch[-1], config), ep_grpo_advantage(*batch, config)
    for name in ("advantages", "progress", "gate", "progress_coordinate", "bucket"):
        close(getattr(wide, name)[:, :columns], getattr(result, name))
    assert torch.count_nonzero(wide.advantages[:, columns:]) == 0
    wide_metrics, metrics = ep_grpo_metrics(wide, padded[2]), ep_grpo_metrics(result, batch[2])
    assert wide_metrics == pytest.approx(metrics, rel=1e-5, abs=1e-6)


@given(batches(), CONFIGS, st.sampled_from([1e4, float("nan"), float("inf")]))
def test_garbage_in_masked_slots_changes_no_bit(batch, config, garbage):
    result = ep_grpo_advantage(*batch, config)
    dirty = [batch[0], batch[1], *(torch.where(batch[1], x, garbage) for x in batch[2:-1]), batch[-1]]
    after = ep_grpo_advantage(*dirty, config)
    for name, value in result.tensors().items():
        assert torch.equal(getattr(after, name), value), name
    assert ep_grpo_metrics(after, dirty[2]) == ep_grpo_metrics(result, batch[2])


@given(batches(), CONFIGS)
def test_masked_tokens_and_empty_rows_get_zero(batch, config):
    result = ep_grpo_advantage(*batch, config)
    for name in ("advantages", "outcome", "progress", "gate", "progress_coordinate", "progress_slope"):
        assert torch.count_nonzero(getattr(result, name)[~batch[1]]) == 0, name
    assert (result.bucket[~batch[1]] == -1).all()
    assert (result.bucket[batch[1]] >= 0).all()


def test_all_off_equals_grpo_of_verl():
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    off = EPGRPOConfig(gate=False, progress=False, zero_variance=False)

    @given(batches(), st.booleans())
    def check(batch, norm_adv_by_std):
        scores, mask, entropy, old, ref, index = batch
        mask = mask.clone()
        # verl lets a row without a valid token vote in its group; that row is no member here.
        mask[~mask.any(dim=1), 0] = True
        result = ep_grpo_advantage(scores, mask, entropy, old, ref, index, off, norm_adv_by_std)
        theirs, _ = compute_grpo_outcome_advantage(
            scores.clone(), mask.int(), np.array(index, dtype=object), norm_adv_by_std_in_grpo=norm_adv_by_std
        )
        torch.testing.assert_close(result.advantages, theirs, rtol=1e-6, atol=1e-6)

    check()


@given(batches(), CONFIGS)
def test_gate_keeps_the_sign_of_the_outcome(batch, config):
    result = ep_grpo_advantage(*batch, config)
    expected = torch.sign(result.outcome_advantage).unsqueeze(1) * batch[1]
    assert torch.equal(torch.sign(result.outcome), expected)


@given(batches(), st.sampled_from([0.125, 2.0, 64.0]), st.sampled_from([-4.0, 0.0, 3.0]))
def test_scale_and_shift_of_rewards_do_not_matter_where_they_differ(batch, scale, shift):
    scores, mask, *rest = batch
    result = ep_grpo_advantage(*batch)
    moved = scores.clone()
    moved[:, -1] = moved[:, -1] * scale + shift
    after = ep_grpo_advantage(moved, mask, *rest)
    size = torch.bincount(result.group[result.votes], minlength=int(result.group.max()) + 1)[result.group]
    differ = ~result.zero_variance & (size > 1)
    # The 1e-6 beside the std (at least 0.125 * 0.08 here) is all that tells scales apart.
    torch.testing.assert_close(after.advantages[differ], result.advantages[differ], rtol=2e-4, atol=2e-4)
    assert torch.equal(after.anchor[differ], result.anchor[differ])


FINITE = st.floats(-1e4, 1e4, width=32)


@given(
    hnp.arrays(np.float32, (4, 6), elements=FINITE),
    hnp.arrays(np.bool_, (4, 6)),
    hnp.arrays(np.float32, (4, 6), elements=st.floats(0, 12, width=32)),
    hnp.arrays(np.float32, (4, 6), elements=FINITE),
    hnp.arrays(np.float32, (4, 6), elements=FINITE),
    CONFIGS,
)
def test_output_and_metrics_are_always_finite(scores, mask, entropy, old, ref, config):
    inputs = [torch.from_numpy(x) for x in (scores, mask, entropy, old, ref)]
    result = ep_grpo_advantage(*inputs, ["a", "a", "b", "a"], config)
    for name, value in result.tensors().items():
        assert value.isfinite().all(), name
    metrics = ep_grpo_metrics(result, inputs[2])
    assert all(type(value) is float and np.isfinite(value) for value in metrics.values())


@given(batches(), CONFIGS)
def test_progress_has_mean_zero_and_at_most_unit_spread_in_every_bucket(batch, config):
    result = ep_grpo_advantage(*batch, config)
    _, mask, _, old, ref, index = batch
    # z again, from the slope: progress = slope * (l - mean of the bucket).
    scope = torch.zeros_like(result.group) if config.bucket_scope == "batch" else result.group
    key = scope.unsqueeze(1) * config.num_buckets + result.bucket.long()
    for k in set(key[mask].tolist()):
        inside = mask & (key == k)
        ratio = (old - ref)[inside]
        close(result.progress[inside], result.progress_slope[inside] * (ratio - ratio.double().mean()).float(), 20)
