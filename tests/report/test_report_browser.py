# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The page of ``epgrpo report`` in a real browser, from its file, on a desktop and on a phone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from page_watch import DESKTOP, PHONE, page_opener
from trace_batches import write_trace
from typer.testing import CliRunner

from epgrpo_verl.view.curves import PANELS
from epgrpo_verl.view.report import HTML, app
from epgrpo_verl.view.traces import TRACE_PANELS

DATA = Path(__file__).parent / "data"
HOSTILE = "<script>window.pwned=1</script><img src=x onerror=window.pwned=2>\"'><b>bold</b>{{title}}"
FOLDER = "<img src=x onerror=window.pwned=3> & ünïcode"
LONG = "a_run_with_a_name_that_has_no_place_to_break_and_is_longer_than_a_phone_is_wide_" * 2


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """The page of three runs: one with traces, one of which is damaged, and two without."""
    folder = tmp_path_factory.mktemp("runs")
    run = folder / FOLDER
    run.mkdir()
    shutil.copy(DATA / "ep_grpo.jsonl", run / "metrics.jsonl")
    write_trace(run / "<i>traces", [1, 10, 20])
    (run / "<i>traces" / "step_000010.jsonl.gz").write_bytes(b"<u>broken")
    runs = [f"{HOSTILE}={run}", f"{LONG}={DATA / 'grpo.jsonl'}", f"third={DATA / 'grpo.jsonl'}"]
    done = CliRunner().invoke(app, [*runs, "--title", HOSTILE, "--out", str(folder / "out")])
    assert done.exit_code == 0, done.output
    return folder / "out" / HTML


@pytest.fixture
def open_page(browser, page_file):
    with page_opener(browser, page_file) as open_:
        yield open_


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_opens_from_its_file_with_all_its_pictures_and_no_errors(open_page, page_file, size):
    page = open_page(size)
    images = page.locator("figure img")
    assert images.count() == len(PANELS) + len(TRACE_PANELS)
    drawn = images.evaluate_all("all => all.map((one) => [one.complete, one.naturalWidth, one.width, one.alt])")
    assert all(complete and natural > 500 and width >= 250 and alt for complete, natural, width, alt in drawn)
    assert [url for url in page.seen.requests if not url.startswith("data:image/png")] == [page_file.as_uri()]
    assert page.seen.errors == []


def test_names_titles_paths_and_messages_are_text(open_page):
    page = open_page()
    assert page.title() == HOSTILE and page.locator("h1").inner_text() == HOSTILE
    names = page.locator("tbody td:first-child").all_inner_texts()
    assert [name.strip() for name in names] == [HOSTILE, LONG, "third"]
    body = page.locator("body").inner_text()
    assert body.count(HOSTILE) >= 3 and FOLDER in body and "<i>traces" in body and "b'<u" in body
    assert page.locator("script, b, i, u").count() == 0 and page.evaluate("window.pwned") is None
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.pwned=4>')")
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in error for error in page.seen.errors)


def test_each_picture_says_its_unit_and_each_name_has_its_colour(open_page):
    page = open_page()
    figures = dict(zip(page.locator("h3").all_inner_texts(), page.locator("figcaption").all_inner_texts(), strict=True))
    for panel in (*PANELS, *TRACE_PANELS):
        caption = figures[f"{panel.title} {panel.unit}".strip()]
        assert panel.about in caption
    colours = page.locator("tbody line").evaluate_all("lines => lines.map((line) => line.getAttribute('stroke'))")
    assert len(set(colours)) == 3


def test_it_fits_a_phone(open_page):
    page = open_page(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    # The table is wider than the phone: it scrolls in its own frame.
    frame = page.locator(".scroll").evaluate(
        "box => [box.scrollWidth, box.clientWidth, getComputedStyle(box).overflowX]"
    )
    assert frame[0] > frame[1] and frame[2] == "auto"
    lefts = page.locator("figure").evaluate_all("all => all.map((one) => one.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1, "figures side by side"
    sizes = page.locator("p, td, figcaption, h3, li").evaluate_all(
        "all => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 12
