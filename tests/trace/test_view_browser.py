# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The page of ``epgrpo view`` in a real browser: what it shows, by mouse and by keyboard, and what it must not do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_watch import PHONE, page_opener
from trace_batches import HOSTILE, make_batch

from epgrpo_verl.trace.reader import read_trace


@pytest.fixture
def open_page(browser, viewer: Path):
    """Opens the page from its file."""
    with page_opener(browser, viewer) as open_:
        yield open_


def token(page, row: int, index: int):
    return page.locator(f'.token[data-row="{row}"][data-index="{index}"]')


def colour(page, row: int, index: int) -> str:
    return token(page, row, index).evaluate("span => getComputedStyle(span).backgroundColor")


def shown(text: str) -> float:
    """The number that the page wrote."""
    return float(text.replace("\u2212", "-"))


def inspected(page) -> dict[str, str]:
    names, values = (page.locator(f"#inspector {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_text_of_the_model_is_text_and_nothing_is_loaded(open_page, viewer):
    page = open_page()
    # All three groups, for all rows of all of them.
    for _ in range(3):
        page.keyboard.press("]")
    body = page.locator("#responses").inner_text()
    for hostile in HOSTILE[:4]:
        assert hostile in body
    assert "⟨U+202E⟩right to left" in body and "⟨U+2028⟩⟨U+2029⟩⟨U+0000⟩" in body and "&lt;b&gt;&amp;" in body
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2
    assert page.seen.requests == [viewer.as_uri()] and page.seen.errors == []


def test_the_policy_blocks_a_script_that_got_in_all_the_same(open_page):
    page = open_page()
    page.evaluate(
        """() => {
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=window.pwned=1>");
            const script = document.createElement("script");
            script.textContent = "window.pwned = 2";
            document.body.append(script);
        }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in error for error in page.seen.errors)


def test_the_numbers_of_a_token_are_those_of_the_trace(open_page, viewer):
    page = open_page()
    response = read_trace(viewer.parent, [10])[0].groups[0]["responses"][1]
    token(page, 1, 5).hover()
    numbers = inspected(page)
    named = {"advantage": "advantage", "outcome part": "outcome", "progress part": "progress", "gate": "gate"}
    named |= {"entropy": "entropy", "progress coordinate": "progress_coordinate", "log-ratio": "log_ratio"}
    for label, name in named.items():
        assert shown(numbers[label]) == pytest.approx(response[name][5], rel=6e-3), label
    assert numbers["bucket"] == f"{response['bucket'][5]} of 0–9"
    assert shown(numbers["plain GRPO"]) == pytest.approx(response["grpo_advantage"], rel=6e-3)
    difference = response["advantage"][5] - response["grpo_advantage"]
    assert shown(numbers["difference to GRPO"]) == pytest.approx(difference, rel=6e-3)


def test_keys_switch_the_quantity_and_move_from_token_to_token(open_page):
    page = open_page()
    headings = page.locator(".heading")
    assert headings.first.inner_text() == "EP-GRPO: advantage"
    before = colour(page, 0, 3)
    page.keyboard.press("5")
    assert page.locator("#by-entropy").is_checked() and headings.first.inner_text() == "EP-GRPO: entropy"
    assert colour(page, 0, 3) != before
    page.locator("#by-entropy").focus()
    page.keyboard.press("ArrowRight")  # as in any group of radio buttons
    assert page.locator("#by-progress_coordinate").is_checked()
    assert headings.first.inner_text() == "EP-GRPO: progress coordinate"

    page.keyboard.press("Tab")  # from the chosen radio button on; the first response is one stop
    place = "[+document.activeElement.dataset.row, +document.activeElement.dataset.index]"
    assert page.evaluate(place) == [0, 0]
    for key, expected in {"ArrowRight": [0, 1], "ArrowDown": [1, 1], "Home": [1, 0], "ArrowLeft": [1, 0]}.items():
        page.keyboard.press(key)
        assert page.evaluate(place) == expected
    page.keyboard.press("End")
    row = make_batch(seed=10).responses[3]  # the group's second response
    assert page.evaluate(place) == [1, len(row) - 1]
    assert f"response 2, token {len(row)} of {len(row)}" in page.locator("#inspector").inner_text()
    page.keyboard.press("2")
    assert page.locator("#inspector .current dt").inner_text() == "outcome part"
    page.keyboard.press("Tab")
    assert page.evaluate(place)[0] == 2


def test_steps_and_groups_are_chosen_in_the_page(open_page):
    page = open_page()
    steps, groups = page.locator("#step option"), page.locator("#group option")
    assert steps.all_inner_texts() == ["1", "10"] and page.locator("#step").input_value() == "1"
    assert groups.all_inner_texts() == [
        "0: 2 of 4 rewards above 0.5",
        "1: zero variance, all rewards 0",
        "2: zero variance, all rewards 1",
    ]
    last = page.locator(".response").first.inner_text()
    page.keyboard.press(",")
    assert page.locator("#step").input_value() == "0" and page.locator(".response").first.inner_text() != last
    page.locator("#group").select_option("1")
    assert page.locator(".badge.zero").inner_text() == "zero-variance group"
    assert "reward is below reward_threshold 0.5" in page.locator(".note").inner_text()
    assert set(page.locator(".grpo-value").all_inner_texts()) == {"plain GRPO 0 on every token"}
    page.keyboard.press("]")
    assert "direction is +1" in page.locator(".note").inner_text()
    page.locator("#group").select_option("0")
    assert page.locator(".badge.zero").count() == 0


def test_buckets_are_marked_masked_tokens_are_not_coloured_and_grpo_is_beside(open_page, viewer):
    page = open_page()
    page.locator("#group").select_option("2")  # row 2 of the batch has a hole
    response = read_trace(viewer.parent, [10])[0].groups[2]["responses"][0]
    buckets = [bucket for bucket in response["bucket"] if bucket is not None]
    first = page.locator(".response").first
    assert first.locator(".bucket-start").all_inner_texts() == [str(bucket) for bucket in sorted(set(buckets))]
    assert [index for index, one in enumerate(response["mask"]) if not one] == [4, 5, 6]
    assert re.search("masked", token(page, 0, 5).get_attribute("class"))
    assert colour(page, 0, 5) == "rgba(0, 0, 0, 0)"
    token(page, 0, 5).hover()
    assert "Masked" in page.locator("#inspector").inner_text()
    plain = first.locator(".plain")
    assert plain.is_visible() and plain.locator(".masked").count() == 1
    page.keyboard.press("g")
    assert not plain.is_visible()
    page.keyboard.press("b")
    assert not first.locator(".bucket-start").first.is_visible()


def test_signs_have_their_own_sides_of_the_scale_and_every_text_can_be_read(open_page, viewer):
    page = open_page()
    group = read_trace(viewer.parent, [10])[0].groups[0]
    for row, response in enumerate(group["responses"]):
        for index, value in enumerate(response["advantage"]):
            if value is not None and abs(value) > 0.05:
                red, _, blue = map(int, re.findall(r"\d+", colour(page, row, index)))
                assert (blue > red) == (value > 0), (row, index, value)
    contrast = """() => {
        const light = (text) => text.match(/\\d+/g).slice(0, 3).map(Number).map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        return Math.min(...[...document.querySelectorAll(".token:not(.masked)")].map((span) => {
            const style = getComputedStyle(span);
            const pair = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
        }));
    }"""
    for key in "123456789":
        page.keyboard.press(key)
        assert page.evaluate(contrast) >= 4.5, f"key {key}"
        ticks = page.locator("#legend .ticks span").all_inner_texts()
        assert len(ticks) == 3 and all(re.search(r"\d", tick) for tick in ticks)


def test_it_fits_a_phone(open_page):
    page = open_page(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    token(page, 0, 3).click()
    bar = page.locator("#inspector").bounding_box()
    assert bar["y"] + bar["height"] <= PHONE["height"] and bar["height"] < PHONE["height"] / 2
    assert len(inspected(page)) == 10
    page.locator("#show-grpo").check()
    assert page.locator(".plain").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    small = page.locator("#quantities .pick").evaluate_all("picks => picks.filter((p) => p.offsetHeight < 28).length")
    assert small == 0, "too small for a finger"
