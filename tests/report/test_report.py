# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of runs. ``data/`` holds the logs of two real runs of the quickstart, one with EP-GRPO and one with GRPO."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from typer.testing import CliRunner

from epgrpo_verl.view.curves import PANELS, draw
from epgrpo_verl.view.logs import Log, load_run
from epgrpo_verl.view.metrics import REWARD, STEP_SECONDS, ZERO_VARIANCE, Metrics
from epgrpo_verl.view.report import HTML, PNG, app
from epgrpo_verl.view.report_data import cells, make_report, remarks
from epgrpo_verl.view.report_page import html
from epgrpo_verl.view.seeds import name_of, over_seeds

DATA = Path(__file__).parent / "data"
EP_GRPO, GRPO = DATA / "ep_grpo.jsonl", DATA / "grpo.jsonl"
EP_GRPO_ONLY = {panel.title for panel in PANELS if panel.metric.startswith("ep_grpo/")}
BLUE, ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


class Page(HTMLParser):
    """What a browser would find in the page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def pictures(self):
        """The decoded images, by what their alt text says."""
        images = [attributes for tag, attributes in self.tags if tag == "img"]
        return {
            image["alt"].removesuffix(" over the training steps"): imread(
                io.BytesIO(base64.b64decode(image["src"].removeprefix("data:image/png;base64,")))
            )
            for image in images
        }


def pixels(image, colour: tuple[int, int, int], alpha: float = 1.0) -> int:
    shown = [alpha * part / 255 + 1 - alpha for part in colour]
    return int((abs(image[..., :3] - shown).max(axis=-1) < 0.02).sum())


def seed_of(path: Path, factor: float) -> Log:
    """A run like another one, with other rewards."""
    metrics = load_run(path).metrics
    steps = {step: {**values, REWARD: values[REWARD] * factor} for step, values in metrics.steps.items()}
    return Log(path, "file", Metrics(steps))


def test_two_real_runs_have_their_panels_and_what_is_missing_is_said():
    report = make_report([(None, load_run(EP_GRPO)), (None, load_run(GRPO))])
    assert list(report.groups) == ["ep_grpo", "grpo"]
    assert {panel.title for panel in report.panels} >= {panel.title for panel in PANELS}
    assert report.left_out == []
    page = Page(html(report))
    assert page.text.count("Not logged by grpo.") == len(EP_GRPO_ONLY) == 4
    pictures = page.pictures()
    assert len(pictures) == len(report.panels)
    for title, picture in pictures.items():
        assert pixels(picture, BLUE) > 100, title
        assert (pixels(picture, ORANGE) > 100) == (title not in EP_GRPO_ONLY), title


def test_grpo_alone_leaves_out_what_it_did_not_log():
    report = make_report([(None, load_run(GRPO))])
    assert {panel.title for panel in report.left_out} == EP_GRPO_ONLY
    page = Page(html(report))
    assert "Left out, because no run logged it: Zero-variance groups (ep_grpo/zero_variance_groups/share)" in page.text
    assert not EP_GRPO_ONLY & set(page.pictures())
    assert any("left out" in line for line in remarks(report))


def test_the_table_says_what_the_log_says():
    rewards = [json.loads(line)["data"][REWARD] for line in EP_GRPO.read_text().splitlines()]
    window = max(1, min(5, len(rewards) // 2))
    first, last = sum(rewards[:window]) / window, sum(rewards[-window:]) / window
    row = cells([load_run(EP_GRPO)])
    assert (row[0].text, row[1].text) == ("1", str(len(rewards)))
    assert (row[2].text, row[2].range) == (f"{first:.3f} → {last:.3f}", "")
    three = cells([seed_of(EP_GRPO, factor) for factor in (0.5, 1.0, 0.9)])
    assert three[2].text == f"{0.8 * first:.3f} → {0.8 * last:.3f}"
    assert three[2].range == f"{0.5 * last:.3f} to {last:.3f}"
    assert cells([load_run(GRPO)])[3].text == "not logged"


def test_seeds_are_joined_by_hand():
    one = Metrics({step: {"a": value} for step, value in ((1, 1.0), (2, 3.0), (3, 8.0), (4, 5.0))})
    two = Metrics({1: {"a": 3.0}, 2: {"b": 0.0}, 3: {"a": 4.0}, 4: {"a": float("nan")}})
    without = Metrics({1: {"b": 1.0}})
    curve = over_seeds([one, two, without], "a")
    assert (curve.steps, curve.mean, curve.low, curve.high, curve.seeds) == ([1, 3], [2, 6], [1, 4], [3, 8], 2)
    smooth = over_seeds([one, two], "a", window=2)
    assert (smooth.low, smooth.high) == ([1, 3.5], [3, 5.5])
    assert over_seeds([without], "a").steps == []


def test_several_seeds_are_one_curve_with_a_band():
    runs = [("mine", seed_of(EP_GRPO, factor)) for factor in (0.5, 1.0)]
    report = make_report(runs)
    assert [len(logs) for logs in report.groups.values()] == [2]
    page = Page(html(report))
    reward, entropy = page.pictures()["Mean reward"], page.pictures()["Entropy of the policy"]
    assert pixels(reward, BLUE, alpha=0.2) > 2000
    assert pixels(entropy, BLUE, alpha=0.2) < 200  # the seeds do not differ there
    assert "a band from the lowest seed to the highest" in page.text
    alone = Page(html(make_report(runs[:1])))
    assert "band" not in alone.text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runs/3b_grpo_seed1", "3b_grpo"),
        ("runs/cpu_quickstart-easy-ep_grpo-hf-seed12/metrics-000.jsonl", "cpu_quickstart-easy-ep_grpo-hf"),
        ("3b_grpo/seed2/metrics.jsonl", "3b_grpo"),
        ("3b_grpo/seed=2/train.log", "3b_grpo"),
        ("my.project/qwen2.5_3b.jsonl", "qwen2.5_3b"),
        ("runs/seeded_7", "seeded_7"),
    ],
)
def test_the_name_of_a_run_leaves_out_its_seed(tmp_path, path, name):
    file = tmp_path / path
    if file.suffix in (".jsonl", ".log"):
        file.parent.mkdir(parents=True)
        file.touch()
    else:
        file.mkdir(parents=True)
    assert name_of(file) == name


HOSTILE = """<script>alert(1)</script><img src=x onerror='alert(2)'>"$x_{</title>"""


def test_names_titles_and_paths_are_text(tmp_path):
    path = tmp_path / "<img src=http:evil onerror=alert(3)>.jsonl"
    shutil.copy(GRPO, path)
    runs = [(HOSTILE, load_run(path)), ("_hidden", load_run(GRPO)), ("$a$ and ${", load_run(EP_GRPO))]
    done = invoke(f"{HOSTILE}={path}", f"_hidden={GRPO}", "--title", HOSTILE, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    for text in (html(make_report(runs, HOSTILE)), (tmp_path / "out" / HTML).read_text(encoding="utf-8")):
        page = Page(text)
        assert HOSTILE in page.text and "_hidden" in page.text and str(path) in page.text
        assert {tag for tag, _ in page.tags} <= set(
            "html head body meta title style main h1 h2 h3 p div section table thead tbody tr th td svg line figure "
            "img figcaption small br code span footer ul li".split()
        )
        for tag, attributes in page.tags:
            assert not any(name.startswith("on") or name == "href" for name in attributes), attributes
            if tag == "img":
                assert attributes["src"].startswith("data:image/png;base64,")
    assert "http" not in re.sub(r"http-equiv|<code>.*?</code>|base64,[^\"]*", "", text)


def test_validation_metrics_get_panels_of_their_own():
    metrics = Metrics({1: {REWARD: 0.1}, 2: {REWARD: 0.2, "val-core/aime24/acc/mean@16": 0.3, "val-aux/x": 1.0}})
    report = make_report([("run", Log(Path("run"), "file", metrics))])
    assert [panel.metric for panel in report.panels] == [REWARD, "val-core/aime24/acc/mean@16"]


def test_a_slow_first_step_does_not_flatten_the_others():
    axes = Figure().subplots()
    panel = next(panel for panel in PANELS if panel.metric == STEP_SECONDS)
    draw(
        axes,
        panel,
        {"run": Metrics({step: {STEP_SECONDS: seconds} for step, seconds in ((1, 90.0), (2, 3.0), (3, 4.0))})},
    )
    assert axes.get_ylim() == pytest.approx((0, 4.6))


def test_smoothing_can_be_turned_off():
    run = [(None, load_run(EP_GRPO))]
    assert "running means of 5 steps" in Page(html(make_report(run))).text
    assert "running means" not in Page(html(make_report(run, smooth=1))).text


def test_the_command_writes_both_files_and_prints_the_numbers(tmp_path):
    done = invoke(EP_GRPO, GRPO, "--out", tmp_path / "new" / "report")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "new" / "report").iterdir()) == sorted([PNG, HTML])
    assert str(tmp_path / "new" / "report" / HTML) in done.output
    assert "Zero-variance groups: not logged by grpo" in done.output
    picture = imread(tmp_path / "new" / "report" / PNG)
    assert picture.shape[1] > 1000
    assert pixels(picture, BLUE) > 1000 and pixels(picture, ORANGE) > 1000


def test_the_command_says_what_is_wrong(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("step by step\n")
    (tmp_path / "val.jsonl").write_text('{"step": 0, "data": {"val-core/x/acc/mean@1": 0.5}}\n')
    for argument, said in (
        (tmp_path / "nowhere", "neither a file nor a folder"),
        (tmp_path / "empty", "no log of verl"),
        (tmp_path / "notes.txt", "is no log of verl"),
        (tmp_path / "val.jsonl", f"logged no {REWARD}"),
        (f"={EP_GRPO}", "no name before the ="),
    ):
        done = invoke(argument, "--out", tmp_path / "report")
        assert done.exit_code == 1
        assert said in done.output, done.output
    assert not (tmp_path / "report").exists()


def test_zero_variance_is_the_share_that_was_logged():
    """One panel end to end: the values of the curve are those in the file."""
    records = [json.loads(line) for line in EP_GRPO.read_text().splitlines()]
    curve = over_seeds([load_run(EP_GRPO).metrics], ZERO_VARIANCE)
    assert curve.steps == [record["step"] for record in records]
    assert curve.mean == [record["data"][ZERO_VARIANCE] for record in records]


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
