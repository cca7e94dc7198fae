# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Answer pairs with the verdict they must get. Most come from public reports about graders, cited in the data file."""

import json
from pathlib import Path

import pytest

from epgrpo_verl.grading import compute_score

PAIRS = [json.loads(line) for line in (Path(__file__).parent / "pairs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"{pair.get('response', pair['answer'])[:40]} -> {pair['gold']}"
)
def test_pair_gets_the_expected_verdict(pair: dict) -> None:
    response = pair.get("response", rf"So the answer is \boxed{{{pair['answer']}}}.")
    result = compute_score("pairs", response, pair["gold"])
    assert result["score"] == float(pair["right"]), f"{pair['source']}: {result}"


@pytest.mark.parametrize(
    ("pred", "gold"),
    [
        (r"\frac{2\pi R^2c^2}{d^2\lambda^5\left(e^{\frac{hc}{\lambda kT}}-1\right)}", "minerva-12"),
        (r"\frac{dM}{dt}=\frac{10^5 L_\odot M^6}{0.007 c^2 M_\odot^6}", "minerva-27"),
        (r"r_0\sqrt{4\pi G\rho_0}", "minerva-30"),
        (r"\arcsin(1.3\sin\theta_w)", "minerva-35"),
        (r"y' + ry = r x(t)", "minerva-62"),
        (r"\frac{e^{at}-e^{-at}}{2a}", "minerva-71"),
        (r"\frac{4Ae^{it}}{3(1+i)}", "minerva-85"),
        (r"\frac{x}{2}-\frac14+Ce^{-2x}", "minerva-80"),
        (r"\frac{d^2v_o}{dt^2}+\frac{1}{LC}v_o=\frac{1}{LC}v_i", "minerva-131"),
        (r"\hbar\omega\left(v+\frac12\right)-\frac{e^2E_0^2}{2m\omega^2}", "minerva-261"),
    ],
)
def test_a_formula_in_another_form_is_right_and_with_another_factor_wrong(pred: str, gold: str) -> None:
    path = Path(__file__).parents[1] / "data" / "benchmarks" / "minerva.jsonl"
    answers = {row["id"]: row["answer"] for row in map(json.loads, path.read_text().splitlines())}
    assert compute_score("minerva", rf"\boxed{{{pred}}}", answers[gold])["score"] == 1.0
    assert compute_score("minerva", rf"\boxed{{{pred} + 1}}", answers[gold])["score"] == 0.0


@pytest.mark.parametrize(
    ("pred", "gold", "right"),
    [
        (r"\frac{-1 \pm \sqrt{5}}{2}", r"\frac{\sqrt5-1}{2}, \frac{-1-\sqrt5}{2}", True),
        (r"x=3+2\sqrt2 \text{ or } x=3-2\sqrt2", r"3 \pm 2 \sqrt{2}", True),
        (r"\{(1,2),(3,4)\}", "(3,4),(1,2)", True),
        (r"\{(2,1),(3,4)\}", "(3,4),(1,2)", False),
        (r"\{x \mid x \ge 2\}", r"[2,\infty)", True),
        (r"-\infty < x \le 0", r"(-\infty, 0]", True),
        (r"\frac{17}{50} = 0.34", r"\dfrac{17}{50}", True),
        (r"\frac{17}{50} = 0.35", r"\dfrac{17}{50}", False),
        (r"3\sqrt{13} \approx 10.8", r"3\sqrt{13}", True),
        (r"\angle ABC = 30^\circ", r"30^\circ", True),
        ("m + n = 33", "33", False),
        ("5 6", "56", False),
        ("5 000", "5000", True),
        ("x¹⁰", "x^{10}", True),
        ("2½", "2.5", True),
        (r"(x+y+z)^{200}+1", r"(x+y+z)^{200}", False),
        (r"10^{50}+1", r"10^{50}", False),
        (r"|x|", r"\sqrt{x^2}", True),
        (r"x", r"\sqrt{x^2}", False),
        (r"(1+i)^2", "2i", True),
        (r"\frac{GM}{r}", r"\frac{gm}{r}", True),
        (r"\frac{r}{R}", r"\frac{R}{r}", False),
    ],
)
def test_shapes_and_forms(pred: str, gold: str, right: bool) -> None:
    result = compute_score("forms", rf"\boxed{{{pred}}}", gold)
    assert result["score"] == float(right), result
