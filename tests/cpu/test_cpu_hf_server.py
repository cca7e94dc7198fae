# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The rollout server on a real (tiny, random) model, without Ray."""

import asyncio
import os

import cpu_assets
import pytest
import torch

os.environ.setdefault("VERL_PLATFORM", "cpu")

LOOP = asyncio.new_event_loop()
run = LOOP.run_until_complete  # a server lives in one event loop, as it does in its Ray actor

PROMPTS = [[40, 41, 42], [50], [60, 61, 62, 63, 64, 65]]


@pytest.fixture(scope="module")
def make_server(assets):
    from verl.workers.config import HFModelConfig, RolloutConfig

    from epgrpo_verl.cpu.hf_server import HFServer

    def make(**settings):
        settings = {
            "name": "hf",
            "tensor_model_parallel_size": 1,
            "prompt_length": 16,
            "response_length": 12,
            "dtype": "float32",
            "max_num_seqs": 8,
            "seed": 1,
        } | settings
        return HFServer(RolloutConfig(**settings), HFModelConfig(path=str(assets / "model")))

    return make


def ask(server, prompts, **params):
    async def gather():
        calls = [server.generate(p, {"logprobs": True} | params, f"r{i}") for i, p in enumerate(prompts)]
        return await asyncio.gather(*calls, return_exceptions=True)

    return run(gather())


def reference_log_probs(prompt, response, temperature):
    """Log-probs from one forward pass over prompt and response, without padding."""
    ids = torch.tensor([prompt + response])
    logits = cpu_assets.build_model()(input_ids=ids).logits[0, len(prompt) - 1 : -1].float() / temperature
    return logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :].unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_log_probs_match_a_forward_pass_at_the_same_temperature(make_server, temperature):
    outputs = ask(make_server(), PROMPTS, temperature=temperature)
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        assert 1 <= len(output.token_ids) <= 12
        expected = reference_log_probs(prompt, output.token_ids, temperature)
        assert torch.allclose(torch.tensor(output.log_probs), expected, atol=1e-4)


def test_greedy_takes_the_most_probable_token(make_server):
    for prompt, output in zip(PROMPTS, ask(make_server(), PROMPTS, temperature=0), strict=True):
        ids = torch.tensor([prompt + output.token_ids])
        best = cpu_assets.build_model()(input_ids=ids).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert output.token_ids == best.tolist()


def test_a_response_ends_with_the_first_end_token(make_server):
    server = make_server(response_length=12)
    # Any token can be the end token: take one that the greedy response contains in its middle.
    tokens = ask(server, [PROMPTS[0]], temperature=0, ignore_eos=True)[0].token_ids
    assert len(tokens) == 12
    end = tokens[4]
    server.eos = {end}
    output = ask(server, [PROMPTS[0]], temperature=0)[0]
    first = tokens.index(end)
    assert output.token_ids == tokens[: first + 1]
    assert len(output.log_probs) == first + 1
    assert output.stop_reason == "completed"
    assert ask(server, [PROMPTS[0]], temperature=0, ignore_eos=True)[0].token_ids == tokens


def test_limits_per_request_in_one_batch(make_server):
    server = make_server()
    server.eos = {263}

    async def gather():
        return await asyncio.gather(
            server.generate(PROMPTS[0], {"max_tokens": 2}, "a"),
            server.generate(PROMPTS[0], {"max_new_tokens": 5}, "b"),
            server.generate(PROMPTS[0], {}, "c"),
            server.generate(list(range(3, 23)), {}, "d"),
        )

    lengths = [len(output.token_ids) for output in run(gather())]
    # 16 + 12 tokens in all leave 8 to a prompt of 20.
    assert lengths == [2, 5, 12, 8]


def test_no_log_probs_unless_asked_for(make_server):
    assert ask(make_server(), PROMPTS[:1], logprobs=False)[0].log_probs is None


def test_the_seed_decides_and_the_batch_does_not(make_server):
    def tokens(outputs):
        return [output.token_ids for output in outputs]

    first = tokens(ask(make_server(), PROMPTS * 2, ignore_eos=True))
    assert tokens(ask(make_server(), PROMPTS * 2, ignore_eos=True)) == first
    one_by_one = make_server(max_num_seqs=1)
    assert tokens(ask(one_by_one, PROMPTS * 2, ignore_eos=True)) == first
    assert tokens(ask(make_server(seed=2), PROMPTS * 2, ignore_eos=True)) != first
    # The samples of one prompt differ from each other.
    assert first[:3] != first[3:]


def test_new_weights_are_used_and_their_version_is_reported(make_server):
    server = make_server()
    before = ask(server, PROMPTS, temperature=0)
    weights = {k: torch.randn(v.shape) * 0.3 for k, v in server.model.state_dict().items()}
    run(server.load_weights(weights, global_steps=7))
    after = ask(server, PROMPTS, temperature=0)
    assert [o.token_ids for o in before] != [o.token_ids for o in after]
    assert {o.extra_fields["global_steps"] for o in before} == {None}
    assert {o.extra_fields["global_steps"] for o in after} == {7}
    for name, value in server.model.state_dict().items():
        assert torch.equal(value, weights[name])


def test_weights_that_do_not_fit_are_refused(make_server):
    server = make_server()
    weights = dict(server.model.state_dict())
    weights["extra"] = weights.pop("model.norm.weight")
    with pytest.raises(ValueError, match=r"missing \['model.norm.weight'\], unexpected \['extra'\]"):
        run(server.load_weights(weights, 1))


def test_tied_weights_may_be_left_out(tmp_path):
    from verl.workers.config import HFModelConfig, RolloutConfig

    from epgrpo_verl.cpu.hf_server import HFServer

    folder = cpu_assets.save(tmp_path, tie=True)
    config = RolloutConfig(name="hf", tensor_model_parallel_size=1, dtype="float32")
    server = HFServer(config, HFModelConfig(path=str(folder / "model")))
    weights = {k: v for k, v in server.model.state_dict().items() if k != "lm_head.weight"}
    run(server.load_weights(weights, 1))
    assert server.global_steps == 1


def test_an_error_reaches_every_request_of_the_batch_and_the_server_goes_on(make_server):
    server = make_server()
    good = server.model.lm_head.weight.data.clone()
    server.model.lm_head.weight.data.fill_(torch.nan)
    outputs = ask(server, PROMPTS)
    assert all(isinstance(o, RuntimeError) and "NaN or inf" in str(o) for o in outputs)
    server.model.lm_head.weight.data.copy_(good)
    assert all(o.token_ids for o in ask(server, PROMPTS))


def test_a_bad_request_fails_alone(make_server):
    server = make_server()

    async def gather():
        return await asyncio.gather(
            server.generate(PROMPTS[0], {}, "good"),
            server.generate([5] * 28, {}, "too long"),
            server.generate(PROMPTS[0], {"min_p": 0.1}, "unsupported"),
            server.generate(PROMPTS[0], {}, "picture", image_data=[object()]),
            return_exceptions=True,
        )

    good, *bad = run(gather())
    assert good.token_ids
    for error, message in zip(bad, ["max_model_len", "min_p", "image_data"], strict=True):
        assert isinstance(error, ValueError)
        assert message in str(error)


def test_abort_ends_the_running_batch_holds_new_requests_and_resumes(make_server):
    server = make_server(response_length=4000, max_num_seqs=1)
    server.eos = {263}

    async def scenario():
        running = asyncio.create_task(server.generate(PROMPTS[0], {"logprobs": True}, "running"))
        waiting = asyncio.create_task(server.generate(PROMPTS[1], {}, "waiting"))
        while server._running is None:
            await asyncio.sleep(0.01)
        await server.abort_all_requests()
        outputs = await asyncio.wait_for(asyncio.gather(running, waiting), 60)
        parked = asyncio.create_task(server.generate(PROMPTS[0], {"max_tokens": 3}, "parked"))
        await asyncio.sleep(0.1)
        held = not parked.done()
        await server.resume_generation()
        resumed = await asyncio.wait_for(parked, 60)
        await server.abort_all_requests(reject_request=True)
        rejected = await server.generate(PROMPTS[0], {}, "rejected")
        return outputs, held, resumed, rejected

    (running, waiting), held, resumed, rejected = run(scenario())
    assert running.stop_reason == "aborted"
    assert 1 <= len(running.token_ids) < 4000
    assert len(running.log_probs) == len(running.token_ids)
    assert (waiting.token_ids, waiting.stop_reason) == ([], "aborted")
    assert held
    assert (len(resumed.token_ids), resumed.stop_reason) == (3, "completed")
    assert (rejected.token_ids, rejected.stop_reason) == ([], "aborted")


def test_abort_reaches_requests_that_wait_for_a_weight_update_and_passes_over_cancelled_ones(make_server):
    server = make_server(max_num_seqs=1)

    async def scenario():
        async with server._weights_lock:
            collected = asyncio.create_task(server.generate(PROMPTS[0], {}, "collected"))
            queued = asyncio.create_task(server.generate(PROMPTS[1], {}, "queued"))
            cancelled = asyncio.create_task(server.generate(PROMPTS[1], {}, "cancelled"))
            while server._queue.qsize() != 2:
                await asyncio.sleep(0.01)
            cancelled.cancel()
            await asyncio.sleep(0)
            await server.abort_all_requests()
        outputs = await asyncio.wait_for(asyncio.gather(collected, queued), 60)
        await server.resume_generation()
        return outputs, await asyncio.wait_for(server.generate(PROMPTS[0], {}, "later"), 60)

    aborted, later = run(scenario())
    assert [(output.token_ids, output.stop_reason) for output in aborted] == [([], "aborted")] * 2
    assert later.token_ids
