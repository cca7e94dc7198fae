# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The diagnosis as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from epgrpo_verl.evaluation.statistics import LEVEL, Estimate
from epgrpo_verl.evaluation.table import header

from . import paper
from .concentration import TOP
from .diagnosis import Diagnosis, ModelDiagnosis
from .perturbation import Losses
from .polarity import Polarity
from .traces import TraceDiagnosis, TracePoint
from .zero_variance import ZeroVariance

NOT_DEFINED = "not defined"
NOTES = (
    f"intervals: {100 * LEVEL:.0f} % of a bootstrap over problems (over groups for a trace)",
    f"paper: reported by {paper.SOURCE}, not measured here. Its model, data and exact procedure for these figures are "
    "not known to us, so a difference may be one of method",
)


def show(diagnosis: Diagnosis) -> Group:
    """All tables, with their notes."""
    parts: list[RenderableType] = [header(diagnosis.settings), Text()]
    if diagnosis.model is not None:
        parts += [*_model_tables(diagnosis.model), Text()]
    if diagnosis.trace is not None:
        parts += [*_trace_tables(diagnosis.trace), Text()]
    for name, found in diagnosis.runs.items():
        parts.append(run_table(name, found))
    parts += [Text(f"{name}: {reason}", style="red") for name, reason in diagnosis.missing.items()]
    return Group(*parts, *(Text(f"note: {note}") for note in (*NOTES, *_more_notes(diagnosis))))


def percent(estimate: Estimate | None, signed: bool = False) -> tuple[str, str]:
    """A share and its interval, in percent."""
    if estimate is None:
        return NOT_DEFINED, ""
    sign, to = ("+", " to ") if signed else ("", "-")
    if estimate.low is None:
        return f"{100 * estimate.value:{sign}.1f} %", "none"
    return f"{100 * estimate.value:{sign}.1f} %", f"{100 * estimate.low:{sign}.1f}{to}{100 * estimate.high:{sign}.1f}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        style = "italic cyan" if column == "paper" else None
        table.add_column(column, justify="left" if number == 0 else "right", style=style, overflow="fold")
    return table


def _model_tables(found: ModelDiagnosis) -> Iterator[RenderableType]:
    table = _table("the model on this data", "", "measured", "interval", "paper")
    table.add_row("right responses", *percent(found.accuracy), "")
    if found.concentration is not None:
        one = found.concentration
        table.add_section()
        table.add_row(Text("1 entropy concentration", style="bold"))
        table.add_row(f"  entropy held by the top {100 * TOP:.0f} % of tokens", f"{100 * one.top_share:.1f} %", "", "")
        table.add_row("  mean entropy of a token, nats", f"{one.mean:.4f}", "", "")
        table.add_row(f"  smallest entropy in the top {100 * TOP:.0f} %, nats", f"{one.threshold:.4f}", "", "")
    if found.perturbation is not None:
        table.add_section()
        table.add_row(Text("2 accuracy lost by replacing one token", style="bold"))
        for title, losses in (("any", found.perturbation.all), ("right", found.perturbation.right)):
            for row in _loss_rows(title, losses):
                table.add_row(*row)
    table.add_section()
    table.add_row(Text("3 polarity and zero variance, GRPO", style="bold"))
    if found.polarity is not None:
        for row in _polarity_rows(found.polarity):
            table.add_row(*row)
    table.add_row("  groups with equal rewards, this model", *percent(found.equal_groups), "")
    yield table
    if found.why_no_perturbation:
        yield Text(f"perturbation is not measured: {found.why_no_perturbation}", style="red")


def _loss_rows(title: str, losses: Losses) -> Iterator[tuple[str, str, str, str]]:
    for name, loss in (("high", losses.high), ("low", losses.low)):
        if loss is None:
            yield f"  {title}, {name} entropy", NOT_DEFINED, "", ""
            continue
        fall = f"{100 * loss.control.value:.0f} to {100 * loss.replaced.value:.0f} %"
        yield f"  {title}, {name} entropy: {fall}", *percent(loss.lost, signed=True), ""
    figure = f"{paper.PERTURBATION_RATIO} x"
    if losses.ratio is None:
        yield "    high over low", NOT_DEFINED, "", figure
        return
    value, low, high = losses.ratio
    interval = "none" if low is None else f"{low:.2f}-{high:.2f}" if low >= 0 else f"{low:.2f} to {high:.2f}"
    yield "    high over low", f"{value:.2f} x", interval, figure


def _polarity_rows(found: Polarity) -> Iterator[tuple[str, str, str, str]]:
    punished, wrong = f"{100 * paper.RIGHT_STEPS_PUNISHED:.1f} %", f"{100 * paper.WRONG_STEPS_IN_WINNING:.1f} %"
    yield "  right steps in failed: punished", *percent(found.right_punished), punished
    yield "  steps of winning: wrong", *percent(found.wrong_in_winning), wrong
    yield "  wrong steps in winning: rewarded", *percent(found.wrong_rewarded), ""
    yield "  steps of failed: right", *percent(found.right_in_failed), ""


def _trace_tables(found: TraceDiagnosis) -> Iterator[RenderableType]:
    points = [found.whole, *(found.points[:: max(1, len(found.points) - 1)] if len(found.points) > 1 else ())]
    names = ["all" if point.step is None else f"step {point.step}" for point in points]
    table = _table("the trace", "", *names, "interval, all", "paper")
    table.columns[0].no_wrap = True

    def add(title: str, estimates: list[Estimate | None], figure: str = "") -> None:
        table.add_row(
            title, *("-" if one is None else percent(one)[0] for one in estimates), percent(estimates[0])[1], figure
        )

    table.add_row("groups", *(str(point.groups) for point in points), "", "")
    shares = [point.concentration for point in points]
    cells = ("-" if one is None else f"{100 * one.top_share:.1f} %" for one in shares)
    table.add_row(f"entropy of the top {100 * TOP:.0f} %", *cells, "", "")
    add("groups with equal rewards", [point.equal_groups for point in points])
    for title, name, figure in (
        ("right in failed: punished", "right_punished", paper.RIGHT_STEPS_PUNISHED),
        ("right in failed: rewarded", "right_rewarded", None),
        ("wrong in won: rewarded", "wrong_rewarded", None),
        ("wrong in won: punished", "wrong_punished", None),
    ):
        if found.whole.grpo is None:
            continue
        table.add_section()
        table.add_row(Text(title, style="bold"))
        add("  plain GRPO", _each(points, "grpo", name), "" if figure is None else f"{100 * figure:.1f} %")
        add("  EP-GRPO", _each(points, "ep_grpo", name))
    if found.whole.grpo is not None:
        table.add_section()
        wrong = f"{100 * paper.WRONG_STEPS_IN_WINNING:.1f} %"
        add("steps of won: wrong", _each(points, "grpo", "wrong_in_winning"), wrong)
    yield table


def _each(points: list[TracePoint], method: str, name: str) -> list[Estimate | None]:
    return [getattr(getattr(point, method), name) for point in points]


def run_table(name: str, found: ZeroVariance) -> Table:
    """Zero variance over a run."""
    phases = (found.whole, found.start, found.end)
    columns = (f"steps {phase.first}-{phase.last}" for phase in phases)
    table = _table(f"zero variance over training: {name}", "", *columns, "paper")
    groups = (f"{100 * phase.groups:.1f} %" for phase in phases)
    steps = (f"{100 * phase.collapsed_steps:.1f} %" for phase in phases)
    table.add_row("groups with equal rewards", *groups, "")
    table.add_row("steps in which all groups are", *steps, f"{100 * paper.ZERO_VARIANCE:.2f} %")
    return table


def _more_notes(diagnosis: Diagnosis) -> Iterator[str]:
    model = diagnosis.model
    if model is not None and model.perturbation is not None:
        yield (
            "any: a position is drawn from each response; right: from each of those that were right. Accuracy "
            "falls from that of the controls, which keep the token, to that with another one, drawn from the policy"
        )
        losses = model.perturbation.all
        if losses.high is not None and losses.low is not None:
            yield (
                "the median probability of a replacement was "
                f"{losses.high.replacement_prob:.2g} at tokens of high entropy and {losses.low.replacement_prob:.2g} "
                "at those of low entropy: the latter are tokens that the policy would hardly ever say"
            )
        if None in (losses.ratio, model.perturbation.right.ratio):
            yield "high over low is not defined where the loss at tokens of low entropy is not above 0"
    trace = diagnosis.trace
    if (model is not None and model.polarity is not None) or (trace is not None and trace.whole.grpo is not None):
        yield "a step is punished if its advantage, the mean over its tokens, is below 0, and rewarded if it is above 0"
    if trace is not None and trace.whole.grpo is not None:
        yield (
            "right in failed: share of the right steps in failed responses; wrong in won: share of the wrong steps "
            "in winning responses; steps of won: share of all steps of winning responses; -: no such steps"
        )
    if model is not None and model.grader_errors:
        yield f"the grader failed on {model.grader_errors} responses; they count as wrong"
    if diagnosis.runs:
        yield (
            "the paper counts training steps; how many groups its steps had is not known to us. With one group per "
            "step both rows would be the same"
        )
