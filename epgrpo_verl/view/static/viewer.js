// Copyright 2026 The epgrpo_verl Authors
// SPDX-License-Identifier: Apache-2.0
"use strict";
// Draws a trace. Every text of the trace reaches the page through textContent, never as markup.

const TRACE = JSON.parse(document.getElementById("trace").textContent);

const IDLE = matchMedia("(pointer: coarse)").matches
  ? "Tap a token for its numbers."
  : "Point at a token for its numbers, or Tab to a response and use the arrow keys.";

const INSPECTED = [
  "advantage", "grpo", "difference", "outcome", "progress", "gate", "entropy", "log_ratio", "progress_coordinate", "bucket",
];

const at = (id) => document.getElementById(id);
const state = { step: 0, group: 0, quantity: "advantage", tokens: [], inspected: null };

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawLegend(figure, scale, label) {
  figure.replaceChildren();
  if (!scale) return;
  const bar = element("div", "ramp");
  bar.style.background = `linear-gradient(to right, ${RAMPS[scale.kind].join(",")})`;
  const ticks = element("div", "ticks");
  const show = scale.kind === "diverging" ? signed : number;
  const middle = (scale.low + scale.high) / 2;
  ticks.append(
    element("span", "", (scale.cut && scale.kind === "diverging" ? "≤ " : "") + show(scale.low)),
    element("span", "", show(Number.isInteger(middle) ? middle : Number(middle.toPrecision(3)))),
    element("span", "", (scale.cut ? "≥ " : "") + show(scale.high)));
  figure.append(bar, ticks, element("figcaption", "", label));
}

function drawTokens(group, response, row) {
  const box = element("div", "text");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Tokens of response ${row + 1}`);
  const spans = [];
  let bucket = -1;
  response.ids.forEach((_, index) => {
    const { text, standIn } = shownText(response, index);
    // A line had better end before a word or a special token than within it.
    if (/^[ <]/.test(text)) box.append(element("wbr"));
    if (response.mask[index] && response.bucket && response.bucket[index] !== bucket) {
      bucket = response.bucket[index];
      const mark = element("span", "bucket-start", String(bucket));
      mark.setAttribute("aria-hidden", "true");
      box.append(mark);
    }
    const span = element("span", standIn ? "token stand-in" : "token", text.replace(/^ /, "\u00a0"));
    span.tabIndex = index === 0 ? 0 : -1;
    span.dataset.row = row;
    span.dataset.index = index;
    if (!response.mask[index]) span.classList.add("masked");
    spans.push(span);
    box.append(span);
  });
  state.tokens[row] = spans;
  return box;
}

/** The same text as plain GRPO sees it: one number for all of it. */
function drawPlain(response) {
  const box = element("div", "text");
  let run = null;
  response.ids.forEach((_, index) => {
    const masked = !response.mask[index];
    if (!run || run.masked !== masked) {
      run = { masked, span: element("span", masked ? "masked" : "token whole") };
      box.append(run.span);
    }
    run.span.append(shownText(response, index).text);
  });
  return box;
}

function drawResponse(group, response, row) {
  const card = element("article", "response");
  card.append(element("h2", "", `Response ${row + 1}`));
  const badges = element("div", "badges");
  badges.append(element("span", "badge", `reward ${number(response.reward)}`), element("span", "badge", `anchor ${signed(response.anchor)}`));
  const grpo = element("span", "badge grpo-value", `plain GRPO ${signed(response.grpo_advantage)} on every token`);
  badges.append(grpo);
  if (!response.votes) badges.append(element("span", "badge", "earlier output of a session: does not vote"));
  card.append(badges);
  if (response.prompt !== undefined) card.append(element("p", "own-prompt text", response.prompt ?? `prompt ids ${response.prompt_ids.join(" ")}`));
  const pair = element("div", "pair");
  const ours = element("div");
  ours.append(element("h3", "heading", ""), drawTokens(group, response, row));
  const plain = element("div", "plain");
  plain.append(element("h3", "", `Plain GRPO: ${signed(response.grpo_advantage)}`), drawPlain(response));
  pair.append(ours, plain);
  card.append(pair);
  return card;
}

function drawGroupHead(step, group) {
  const head = at("group-head");
  const theta = step.config.reward_threshold;
  head.replaceChildren();
  const badges = element("div", "badges");
  badges.append(element("h2", "", `Group ${group.group}`));
  if (group.zero_variance) badges.append(element("span", "badge zero", "zero-variance group"));
  badges.append(element("span", "badge", rewardSummary(group, theta)));
  head.append(badges);
  head.append(element("div", "prompt text", group.prompt ?? `prompt ids ${group.prompt_ids.join(" ")}`));
  if (group.zero_variance) {
    const reward = group.responses[0].reward;
    const side = reward > theta ? "above" : reward < theta ? "below" : "equal to";
    head.append(element("p", "note",
      `All rewards are ${number(reward)}. Plain GRPO gives every token 0 and learns nothing from this group. ` +
      (step.config.zero_variance
        ? `EP-GRPO uses the progress part alone; its direction is ${signed(group.responses[0].anchor)}, because the reward is ${side} reward_threshold ${theta}.`
        : "The zero-variance rule was off in this run.")));
  }
}

/** Draw the group that is chosen. Switching the quantity later only repaints. */
function draw() {
  const step = TRACE.steps[state.step];
  const group = step.groups[state.group];
  state.tokens = [];
  at("responses").replaceChildren();
  at("group-head").replaceChildren();
  if (!group) return;
  drawGroupHead(step, group);
  at("responses").append(...group.responses.map((response, row) => drawResponse(group, response, row)));
  for (const quantity of QUANTITIES) {
    const field = quantity.name === "difference" ? "advantage" : quantity.name;
    at(`by-${quantity.name}`).disabled = group.responses.every((response) => !response[field]);
  }
  state.inspected = null;
  repaint();
}

function repaint() {
  const step = TRACE.steps[state.step];
  const group = step.groups[state.group];
  if (!group) return;
  const quantity = BY_NAME.get(state.quantity);
  const scale = scaleOf(group, quantity, step.config);
  const grpoScale = scaleOf(group, BY_NAME.get("advantage"), step.config);
  group.responses.forEach((response, row) => {
    state.tokens[row].forEach((span, index) => {
      const value = valueOf(response, state.quantity, index);
      if (value === null) {
        span.style.backgroundColor = "";
        span.style.color = "";
      } else paint(span, scale, value);
    });
  });
  document.querySelectorAll(".response").forEach((card, row) => {
    card.querySelector(".heading").textContent = `EP-GRPO: ${quantity.label}`;
    for (const painted of card.querySelectorAll(".grpo-value, .whole")) paint(painted, grpoScale, group.responses[row].grpo_advantage);
  });
  at("about").textContent = quantity.about;
  drawLegend(at("legend"), scale, quantity.label + (scale.cut ? ` (full colour from the ${scale.percentile}th percentile on)` : ""));
  drawLegend(at("legend-grpo"), quantity.shared || !at("show-grpo").checked ? null : grpoScale, "plain GRPO's advantage");
  inspect(state.inspected);
}

/** Show the numbers of a token in the bar at the bottom. */
function inspect(span) {
  const bar = at("inspector");
  state.inspected = span;
  bar.replaceChildren();
  if (!span) {
    bar.append(element("p", "hint", IDLE));
    return;
  }
  const step = TRACE.steps[state.step];
  const row = Number(span.dataset.row);
  const index = Number(span.dataset.index);
  const response = step.groups[state.group].responses[row];
  const which = element("div", "which");
  which.append(element("span", "what", span.textContent),
    element("span", "", `response ${row + 1}, token ${index + 1} of ${response.ids.length}, id ${response.ids[index]}`));
  bar.append(which);
  if (!response.mask[index]) {
    bar.append(element("p", "hint", "Masked: this token gets no advantage and counts in no statistic."));
    return;
  }
  const list = element("dl");
  const entry = (label, text, name) => {
    const pair = element("div", name === state.quantity ? "current" : "");
    pair.append(element("dt", "", label), element("dd", "", text));
    list.append(pair);
  };
  for (const name of INSPECTED) {
    if (name === "grpo") {
      entry("plain GRPO", signed(response.grpo_advantage), name);
      continue;
    }
    const { label } = BY_NAME.get(name);
    const value = valueOf(response, name, index);
    const sign = ["advantage", "outcome", "progress", "log_ratio", "difference"].includes(name);
    entry(label, name === "bucket" && value !== null ? `${value} of 0–${step.config.num_buckets - 1}` : sign && value !== null ? signed(value) : number(value), name);
  }
  bar.append(list);
}

function options(select, labels) {
  select.replaceChildren(...labels.map((label, index) => {
    const option = element("option", "", label);
    option.value = index;
    return option;
  }));
}

function chooseStep(index) {
  state.step = Math.min(Math.max(index, 0), TRACE.steps.length - 1);
  const step = TRACE.steps[state.step];
  const theta = step.config.reward_threshold;
  at("step").value = state.step;
  options(at("group"), step.groups.map((group) => `${group.group}: ${group.zero_variance ? "zero variance, " : ""}${rewardSummary(group, theta)}`));
  at("source").textContent = `${TRACE.source}: ${step.groups.length} of the ${step.groups_in_batch} groups of the batch`;
  chooseGroup(0);
}

function chooseGroup(index) {
  const last = TRACE.steps[state.step].groups.length - 1;
  state.group = Math.max(0, Math.min(index, last));
  at("group").value = state.group;
  draw();
}

function chooseQuantity(name) {
  const radio = at(`by-${name}`);
  if (radio.disabled) return;
  radio.checked = true;
  state.quantity = name;
  repaint();
}

function toggle() {
  at("responses").classList.toggle("with-grpo", at("show-grpo").checked);
  at("responses").classList.toggle("with-buckets", at("show-buckets").checked);
  repaint();
}

function moveFocus(span, key) {
  const row = Number(span.dataset.row);
  const index = Number(span.dataset.index);
  const rows = state.tokens.filter((tokens) => tokens.length).length;
  const target = {
    ArrowLeft: [row, index - 1], ArrowRight: [row, index + 1], Home: [row, 0], End: [row, state.tokens[row].length - 1],
    ArrowUp: [(row + rows - 1) % rows, index], ArrowDown: [(row + 1) % rows, index],
  }[key];
  if (!target) return false;
  const tokens = state.tokens[target[0]];
  const next = tokens[Math.min(Math.max(target[1], 0), tokens.length - 1)];
  span.tabIndex = -1;
  state.tokens[row][0].tabIndex = 0;
  tokens.forEach((token) => { token.tabIndex = -1; });
  next.tabIndex = 0;
  next.focus();
  return true;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.classList.contains("token") && moveFocus(target, event.key)) {
    event.preventDefault();
    return;
  }
  if (target.tagName === "SELECT") return;
  const key = event.key;
  if (key >= "1" && key <= "9") chooseQuantity(QUANTITIES[Number(key) - 1].name);
  else if (key === "[" || key === "]") chooseGroup(state.group + (key === "]" ? 1 : -1));
  else if (key === "," || key === ".") chooseStep(state.step + (key === "." ? 1 : -1));
  else if (key === "g" || key === "b") {
    const box = at(key === "g" ? "show-grpo" : "show-buckets");
    box.checked = !box.checked;
    toggle();
  }
}

function start() {
  QUANTITIES.forEach(({ name, label }, index) => {
    const pick = element("label", "pick");
    const radio = element("input");
    Object.assign(radio, { type: "radio", name: "quantity", id: `by-${name}`, value: name, checked: name === state.quantity });
    const text = element("span");
    text.append(element("kbd", "", String(index + 1)), label);
    pick.append(radio, text);
    at("quantities").append(pick);
  });
  const cells = at("responses");
  options(at("step"), TRACE.steps.map((step) => `${step.step}${step.part > 1 ? ` (update ${step.part})` : ""}`));
  at("quantities").addEventListener("change", (event) => chooseQuantity(event.target.value));
  at("step").addEventListener("change", (event) => chooseStep(Number(event.target.value)));
  at("group").addEventListener("change", (event) => chooseGroup(Number(event.target.value)));
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const box of ["show-grpo", "show-buckets"]) at(box).addEventListener("change", toggle);
  for (const kind of ["pointerover", "focusin"]) {
    cells.addEventListener(kind, (event) => { if (event.target.dataset.row) inspect(event.target); });
  }
  cells.addEventListener("click", (event) => { if (event.target.dataset.row) event.target.focus(); });
  document.addEventListener("keydown", onKey);
  at("show-grpo").checked = matchMedia("(min-width: 641px)").matches;
  cells.classList.toggle("with-grpo", at("show-grpo").checked);
  cells.classList.add("with-buckets");
  chooseStep(TRACE.steps.length - 1);
}

start();
