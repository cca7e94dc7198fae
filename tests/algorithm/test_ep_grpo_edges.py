# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Every decided edge case, and the inputs of public reports on other estimators."""

import pytest
import torch

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage
from epgrpo_verl.algorithm import last_output_rows
from epgrpo_verl.algorithm.groups import group_ids

OFF = EPGRPOConfig(gate=False, progress=False, zero_variance=False)


def outcome_only(rewards, index=None, mask=None, config=OFF, norm_adv_by_std=True, dtype=torch.float32):
    """A of equation 1 for rewards of one-token responses."""
    rewards = torch.tensor(rewards, dtype=dtype).reshape(-1, 1)
    mask = torch.ones(len(rewards), 1) if mask is None else torch.tensor(mask).reshape(-1, 1)
    index = ["g"] * len(rewards) if index is None else index
    zeros = torch.zeros(len(rewards), 1)
    return ep_grpo_advantage(rewards, mask, zeros, zeros, zeros, index, config, norm_adv_by_std)


def one_row(entropy, mask=None, log_ratio=None, reward=1.0, **settings):
    """One response in a group of its own."""
    entropy = torch.tensor([entropy])
    mask = torch.ones_like(entropy) if mask is None else torch.tensor([mask])
    rewards = torch.zeros_like(entropy)
    rewards[0, -1] = reward
    old = torch.zeros_like(entropy) if log_ratio is None else torch.tensor([log_ratio])
    return ep_grpo_advantage(rewards, mask, entropy, old, torch.zeros_like(old), ["g"], EPGRPOConfig(**settings))


# --- Rewards and groups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.35, 0.9, 0.1, -0.7, 1 / 3])
@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_equal_rewards_give_exactly_zero_whatever_their_rounding(value, size, dtype):
    # NVIDIA-NeMo/RL#4161, NousResearch/atropos#481: the std of seven rewards of 0.35 is not 0 in float32.
    result = outcome_only([value] * size, dtype=dtype)
    assert torch.count_nonzero(result.outcome) == 0
    assert result.zero_variance.all()


def test_rewards_within_the_tolerance_are_equal():
    assert outcome_only([1.0, 1.0 + 8e-7]).zero_variance.all()
    assert not outcome_only([1.0, 1.0 + 2e-6]).zero_variance.any()


def test_low_variance_is_kept():
    # verl-project/verl#6348: 1 and 1.00001 are 84 float32 steps apart, 1.00136e-5.
    # 5.00679e-6 / (7.08067e-6 + 1e-6) = 0.619601.
    result = outcome_only([1.0, 1.00001])
    torch.testing.assert_close(result.advantages, torch.tensor([[-0.6196], [0.6196]]), rtol=0, atol=1e-4)


def test_low_precision_rewards_keep_their_sign_pattern():
    # OpenRLHF/OpenRLHF#1334: statistics in bfloat16 lose the small step.
    rewards = [1.0, 1.0, 1.0, 1.0078125]
    signs = [torch.sign(outcome_only(rewards, dtype=d).advantages).tolist() for d in (torch.bfloat16, torch.float32)]
    assert signs[0] == signs[1] == [[-1], [-1], [-1], [1]]


def test_division_by_std_can_be_turned_off():
    # verl-project/verl#7893: the flag was ignored by another estimator. Mean 0.25, std 0.5.
    divided, plain = (outcome_only([1.0, 0.0, 0.0, 0.0], norm_adv_by_std=flag).advantages for flag in (True, False))
    torch.testing.assert_close(plain, torch.tensor([[0.75], [-0.25], [-0.25], [-0.25]]))
    torch.testing.assert_close(divided, torch.tensor([[1.5], [-0.5], [-0.5], [-0.5]]), rtol=0, atol=1e-5)


def test_group_of_one_keeps_its_reward():
    # huggingface/trl#5773: n - 1 = 0 must not lose the sample. A = r as in verl; d by theta, as all rewards are equal.
    result = outcome_only([1.0, 0.0, -1.0], index=["a", "b", "c"], config=EPGRPOConfig(gate=False))
    assert result.outcome_advantage.tolist() == pytest.approx([1.0, 0.0, -1.0], abs=2e-6)
    assert result.anchor.tolist() == [1.0, -1.0, -1.0]
    assert not result.zero_variance.any()


def test_reward_at_the_mean_has_no_direction():
    result = outcome_only([0.0, 0.5, 1.0], config=EPGRPOConfig())
    assert result.anchor.tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "rewards", [[0.1, 0.2, 0.3], [0.7, 0.8, 0.9], [0.1, 0.1, 0.4, 0.7, 0.7], [0.2, 0.4, 0.5, 0.6, 0.8]], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rounding_of_a_mean_chooses_no_direction(rewards, dtype):
    anchor = outcome_only(rewards, config=EPGRPOConfig(), dtype=dtype).anchor
    middle = len(rewards) // 2
    assert anchor.tolist() == [-1.0] * middle + [0.0] + [1.0] * middle


def test_reward_at_the_threshold_has_no_direction_in_a_collapsed_group():
    assert outcome_only([0.5, 0.5], config=EPGRPOConfig()).anchor.tolist() == [0.0, 0.0]


def test_anchor_of_collapsed_groups():
    def direction(reward, **settings):
        return outcome_only([reward] * 3, config=EPGRPOConfig(**settings)).anchor.tolist()

    assert direction(1.0) == [1.0] * 3
    assert direction(0.0) == direction(-1.0) == [-1.0] * 3
    assert direction(1.0, reward_threshold=2.0) == [-1.0] * 3
    assert direction(1.0, zero_variance=False) == [0.0] * 3


def test_reward_on_a_masked_token_counts():
    # verl-project/verl#6310 and others: the outcome of a token that was rejected later.
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    zeros = torch.zeros(2, 2)
    result = ep_grpo_advantage(rewards, torch.tensor([[1, 0], [1, 0]]), zeros, zeros, zeros, ["g", "g"])
    assert result.outcome_reward.tolist() == [1.0, 0.0]
    assert result.anchor.tolist() == [1.0, -1.0]


def test_row_without_a_valid_token_does_not_vote():
    # verl-project/verl#6362: reward 100 on the last pad of an empty response must not make its sibling -49.5.
    result = outcome_only([100.0, 1.0], mask=[0, 1])
    assert result.advantages.tolist() == [[0.0], pytest.approx([1.0], abs=2e-6)]
    three = outcome_only([0.0, 1.0, 100.0], mask=[1, 1, 0])
    two = outcome_only([0.0, 1.0])
    assert torch.equal(three.advantages[:2], two.advantages)
    assert three.valid_row.tolist() == [True, True, False]
    assert (three.outcome_reward[2], three.anchor[2], three.advantages[2]) == (0, 0, 0)


def test_group_without_a_valid_token_is_all_zeros():
    # natolambert/rlhf-book#398, radixark/miles#3205: statistics of nothing.
    result = outcome_only([1.0, 0.0], mask=[0, 0], config=EPGRPOConfig(gate_normalize=True))
    for name in ("advantages", "outcome", "progress", "gate", "progress_slope", "anchor", "progress_coordinate"):
        assert torch.count_nonzero(getattr(result, name)) == 0, name
    assert not result.zero_variance.any()


def test_padding_rows_change_nothing(make_batch):
    # verl-project/verl#5969: copies of real rows polluted the statistics. Here to the bit.
    batch = make_batch(3)
    before = ep_grpo_advantage(*batch.args()).advantages
    extra = [torch.nn.functional.pad(x, (0, 0, 0, 3)) for x in batch.args()[:-1]]
    after = ep_grpo_advantage(*extra, [*batch.index, "pad1", "pad2", "pad2"]).advantages
    assert torch.equal(after[:-3], before)
    assert torch.count_nonzero(after[-3:]) == 0


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf"), 1e4, -1e4])
def test_rows_without_a_valid_token_may_hold_anything(make_batch, garbage):
    batch = make_batch(4)
    before = ep_grpo_advantage(*batch.args()).advantages
    empty = batch.response_mask.sum(dim=1) == 0
    assert empty.any()
    for tensor in batch.args()[:1] + batch.args()[2:5]:
        tensor[empty] = garbage
    assert torch.equal(ep_grpo_advantage(*batch.args()).advantages, before)


# --- Sessions with several outputs ------------------------------------------------------------------------------


def test_last_output_of_a_session_votes_once():
    # verl-project/verl#5375: sessions u_0 (two outputs) and u_1 (one) are a group of two, not of three.
    carrier = last_output_rows(["u_0", "u_0", "u_1"], [0, 1, 0])
    assert carrier.tolist() == [1, 1, 2]
    rewards = torch.tensor([[7.0], [1.0], [0.0]])
    ones = torch.ones(3, 1)
    result = ep_grpo_advantage(rewards, ones, ones, ones, ones, ["u"] * 3, OFF, outcome_row=carrier)
    two = outcome_only([1.0, 0.0])
    assert torch.equal(result.advantages, two.advantages[[0, 0, 1]])
    assert result.outcome_reward.tolist() == [1.0, 1.0, 0.0]
    assert result.votes.tolist() == [False, True, True]


def test_session_whose_last_output_is_rejected_has_no_outcome():
    # Session 0 is rows 0 and 1, of which 1 was rejected; sessions 1 and 2 are a group of two beside it.
    rewards, ones = torch.tensor([[1.0], [1.0], [1.0], [0.0]]), torch.ones(4, 1)
    mask = torch.tensor([[1], [0], [1], [1]])
    carrier = torch.tensor([1, 1, 2, 3])
    result = ep_grpo_advantage(rewards, mask, ones, ones, ones, ["u"] * 4, outcome_row=carrier)
    assert result.outcome_advantage.tolist() == pytest.approx([0.0, 0.0, 0.707106, -0.707106], abs=2e-6)
    assert result.anchor.tolist() == [0.0, 0.0, 1.0, -1.0]


def test_last_output_rows_in_any_order():
    assert last_output_rows(["b", "a", "b", "a"], [2, 0, 1, 5]).tolist() == [0, 3, 0, 3]
    with pytest.raises(ValueError, match="same session and position"):
        last_output_rows(["a", "a"], [0, 0])
    with pytest.raises(ValueError, match="2 entries and position 1"):
        last_output_rows(["a", "a"], [0])


@pytest.mark.parametrize(
    "outcome_row, message",
    [
        ([0, 1], "one row number"),
        ([0, 1, 3], "one row number"),
        ([0, 2, 1], r"outcome_row\[1\]"),
        ([2, 1, 2], r"\[0\]"),
    ],
)
def test_outcome_row_is_checked(outcome_row, message):
    ones = torch.ones(3, 1)
    with pytest.raises(ValueError, match=message):
        ep_grpo_advantage(ones, ones, ones, ones, ones, ["a", "b", "b"], outcome_row=torch.tensor(outcome_row))


# --- Entropy and logical progress -------------------------------------------------------------------------------


def test_garbage_in_masked_slots_is_ignored(make_batch):
    # huggingface/trl#3709 (entropy of padding), PaddlePaddle/PaddleNLP#10596 (log-probs of padding), to the bit.
    batch = make_batch(5)
    before = ep_grpo_advantage(*batch.args())
    for garbage in (4.9, 1e4, -1e4, float("nan"), float("inf"), -float("inf")):
        for tensor in (batch.entropy, batch.old_log_probs, batch.ref_log_prob):
            tensor[batch.response_mask == 0] = garbage
        after = ep_grpo_advantage(*batch.args())
        for name, value in before.tensors().items():
            assert torch.equal(getattr(after, name), value), (name, garbage)


def test_masked_tokens_inside_the_response_do_not_advance_progress():
    # verl-project/verl#2368: tool output has log-probs and entropies too.
    with_tool = one_row([1.0, 1.0, 9.0, 9.0, 1.0, 1.0], mask=[1, 1, 0, 0, 1, 1])
    without = one_row([1.0, 1.0, 1.0, 1.0])
    assert [b for b in with_tool.bucket[0].tolist() if b >= 0] == without.bucket[0].tolist()


@pytest.mark.parametrize("num_buckets", [1, 2, 3, 7, 10, 29, 100, 1024])
@pytest.mark.parametrize("entropy", [0.1, 0.7, 1.0, 1e-6, 11.5])
def test_bucket_edges_are_exact(num_buckets, entropy):
    # 100 equal entropies: tau = j / 100, and floor(j K / 100) in integers.
    result = one_row([entropy] * 100, num_buckets=num_buckets)
    assert result.bucket[0].tolist() == [min(j * num_buckets // 100, num_buckets - 1) for j in range(1, 101)]


def test_total_entropy_of_zero_progresses_by_position():
    result = one_row([0.0] * 5, mask=[1, 0, 1, 1, 1], num_buckets=4)
    assert result.progress_coordinate.tolist() == [[0.25, 0.0, 0.5, 0.75, 1.0]]
    assert result.bucket.tolist() == [[1, -1, 2, 3, 3]]


def test_slightly_negative_entropy_is_clamped():
    result, zero = one_row([-1e-3, 1.0, 2.0]), one_row([0.0, 1.0, 2.0])
    assert torch.equal(result.gate, zero.gate)
    assert torch.equal(result.progress_coordinate, zero.progress_coordinate)
    all_negative = one_row([-5e-4, -5e-4])
    assert all_negative.progress_coordinate.tolist() == [[0.5, 1.0]]


def test_equal_entropies_leave_the_gate_at_one_half():
    for entropy in (0.0, 0.1, 0.7, 1 / 3, 11.5):
        assert one_row([entropy] * 77).gate.tolist() == [[0.5] * 77]


@pytest.mark.parametrize("entropy", [-0.4, -1.1e-3])
def test_negative_entropy_is_an_error(entropy):
    # verl-project/verl#7439: a fused kernel whose entropy went negative.
    with pytest.raises(ValueError, match=r"entropy must not be negative, got -\S+ in row 0, column 1(;|$)"):
        one_row([1.0, entropy, 1.0])


def test_entropy_above_log_vocabulary_is_an_error():
    args = (torch.ones(1, 2), torch.ones(1, 2), torch.tensor([[1.0, 2.5]]), torch.zeros(1, 2), torch.zeros(1, 2), ["g"])
    ep_grpo_advantage(*args, max_entropy=2.5)
    ep_grpo_advantage(*args, max_entropy=2.4995)
    with pytest.raises(ValueError, match=r"log\(vocabulary size\) = 2.3 nats, got 2.5 in row 0, column 1(;|$)"):
        ep_grpo_advantage(*args, max_entropy=2.3)


# --- Progress ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 1 / 3, 12.0])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 100])
def test_bucket_of_one_or_of_equal_values_has_no_z(dtype, value, length):
    entropy = torch.full((1, length), 0.7, dtype=dtype)
    old = torch.full((1, length), value, dtype=dtype)
    for num_buckets in (1, 3, 1000):
        result = ep_grpo_advantage(
            torch.ones_like(old),
            torch.ones_like(old),
            entropy,
            old,
            0 * old,
            ["g"],
            EPGRPOConfig(num_buckets=num_buckets),
        )
        assert torch.count_nonzero(result.progress) == 0
        assert torch.count_nonzero(result.progress_slope) == 0


def test_first_step_is_gated_grpo_without_noise(make_batch):
    batch = make_batch(6)
    batch.ref_log_prob = batch.old_log_probs.clone()
    result = ep_grpo_advantage(*batch.args())
    assert torch.count_nonzero(result.progress) == 0
    assert torch.count_nonzero(result.progress_slope) == 0
    assert torch.equal(result.advantages, result.outcome)


def test_log_ratio_noise_is_damped():
    # verl-project/verl#2088: log-probs differ by 1e-4 before any update; a bare z-score would give |z| near 1.
    torch.manual_seed(0)
    noise = 1e-4 * torch.randn(8, 64)
    zeros, ones = torch.zeros(8, 64), torch.ones(8, 64)
    args = (ones / 64, ones, torch.rand(8, 64))
    small = ep_grpo_advantage(*args, noise, zeros, ["g"] * 8).progress.abs().max()
    large = ep_grpo_advantage(*args, noise * 1e4, zeros, ["g"] * 8).progress.abs().max()
    assert 0 < small < large / 5


def test_one_token_moves_only_its_bucket():
    # huggingface/trl#2575: a term applied at the wrong positions. Four buckets of two tokens; the sixth token moves.
    result = one_row([1.0] * 8, log_ratio=[0.0] * 5 + [0.5, 0.0, 0.0], num_buckets=4)
    assert result.bucket.tolist() == [[0, 1, 1, 2, 2, 3, 3, 3]]
    assert (result.progress != 0).tolist() == [[False] * 5 + [True] * 3]
    assert result.progress[0, 5] > 0 > result.progress[0, 6]


def test_huge_log_probs_on_padding_stay_out():
    result = one_row([1.0, 1.0, 1.0], mask=[1, 1, 0], log_ratio=[0.1, 0.2, -1e4])
    assert result.advantages.isfinite().all()
    assert result.log_ratio.tolist() == [pytest.approx([0.1, 0.2, 0.0])]


# --- Bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["entropy", "old_log_probs", "ref_log_prob", "token_level_rewards"])
@pytest.mark.parametrize("block_tokens", [1, 30, 1 << 17])
def test_bad_number_on_a_valid_token_is_named(make_batch, monkeypatch, name, bad, block_tokens):
    # huggingface/trl#7263: an entropy of NaN where a token has probability 0.
    monkeypatch.setattr("epgrpo_verl.algorithm.blocks.BLOCK_TOKENS", block_tokens)
    batch = make_batch(7)
    row, column = torch.nonzero(batch.response_mask)[35].tolist()
    getattr(batch, name)[row, column] = bad
    with pytest.raises(ValueError, match=rf"^{name} must be finite .* in row {row}, column {column}$"):
        ep_grpo_advantage(*batch.args())


def test_bad_reward_on_a_masked_token_of_a_valid_row_is_named(make_batch):
    batch = make_batch(8)
    row = int(batch.response_mask.any(dim=1).nonzero()[0])
    batch.response_mask[row, -1] = 0
    batch.token_level_rewards[row, -1] = float("nan")
    with pytest.raises(ValueError, match=rf"token_level_rewards .* row {row}, column {batch.entropy.shape[1] - 1}$"):
        ep_grpo_advantage(*batch.args())


def test_equal_infinities_are_not_taken_for_a_ratio_of_zero():
    with pytest.raises(ValueError, match="old_log_probs must be finite"):
        ones, inf = torch.ones(1, 2), torch.full((1, 2), -float("inf"))
        ep_grpo_advantage(ones, ones, ones, inf, inf, ["g"])


def test_overflowing_rewards_are_named():
    with pytest.raises(ValueError, match="sum of token_level_rewards overflows in row 0"):
        ones = torch.ones(1, 2)
        ep_grpo_advantage(ones * 3e38, ones, ones, ones, ones, ["g"])


@pytest.mark.parametrize("name", ["token_level_rewards", "entropy", "old_log_probs", "ref_log_prob"])
def test_shapes_are_checked(make_batch, name):
    batch = make_batch(9)
    setattr(batch, name, getattr(batch, name)[:, :-1])
    with pytest.raises(ValueError, match=rf"{name} has shape .*, response_mask"):
        ep_grpo_advantage(*batch.args())
    setattr(batch, name, [[0.0]])
    with pytest.raises(TypeError, match=rf"{name} must be a tensor, got list"):
        ep_grpo_advantage(*batch.args())


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (4,)])
def test_empty_or_flat_batches_are_refused(shape):
    empty = torch.zeros(shape)
    with pytest.raises(ValueError, match="must have shape"):
        ep_grpo_advantage(empty, empty, empty, empty, empty, ["g"] * shape[0])


@pytest.mark.parametrize("index", [["a"], ["a"] * 3, torch.zeros(2, 1)])
def test_length_of_the_index_is_checked(index):
    ones = torch.ones(2, 1)
    with pytest.raises(ValueError, match="group key .* for each of the 2 rows"):
        ep_grpo_advantage(ones, ones, ones, ones, ones, index)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (None, "got NoneType"),
        ({0, 1, 2, 3}, "got set"),
        ("abcd", "got str"),
        (list(torch.tensor([0, 0, 1, 1])), r"got tensor\(0\) in row 0"),
        ([0.0, 0.0, float("nan"), 1.0], "got nan in row 2"),
        (["a", "a", ["b"], "b"], r"got \['b'\] in row 2"),
    ],
    ids=str,
)
def test_keys_that_form_no_groups_are_refused(index, message):
    with pytest.raises(TypeError, match=f"index must hold .*{message}"):
        group_ids(index, 4)


def test_a_quoted_switch_is_refused():
    with pytest.raises(TypeError, match="norm_adv_by_std_in_grpo.* must be true or false"):
        outcome_only([0.0, 1.0], norm_adv_by_std="False")


def test_missing_inputs_are_named_unless_their_part_is_off():
    ones = torch.ones(2, 1)
    with pytest.raises(ValueError, match="^entropy is missing"):
        ep_grpo_advantage(ones, ones, None, ones, ones, ["g", "g"], EPGRPOConfig(progress=False))
    with pytest.raises(ValueError, match="^ref_log_prob is missing"):
        ep_grpo_advantage(ones, ones, ones, ones, None, ["g", "g"])
    with pytest.raises(ValueError, match="^old_log_probs is missing"):
        ep_grpo_advantage(ones, ones, ones, None, ones, ["g", "g"])
    rewards = torch.tensor([[1.0], [0.0]])
    without = ep_grpo_advantage(rewards, ones, None, None, None, ["g", "g"], OFF)
    assert torch.equal(without.advantages, outcome_only([1.0, 0.0]).advantages)
    assert without.log_ratio is None


def test_warm_up_needs_the_step(make_batch):
    with pytest.raises(ValueError, match="eta_warmup_steps=5 needs the training step, got None"):
        ep_grpo_advantage(*make_batch().args(), EPGRPOConfig(eta_warmup_steps=5))
