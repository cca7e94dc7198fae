// Copyright 2026 The epgrpo_verl Authors
// SPDX-License-Identifier: Apache-2.0
"use strict";
// What a trace holds for each token: names, numbers, scales and texts. Nothing here touches the page.

// Quantities in the order of the number keys. `shared`: on one scale with GRPO's advantage, so that they compare.
const QUANTITIES = [
  { name: "advantage", label: "advantage", shared: true, about: "What the token is trained with under EP-GRPO: outcome part plus progress part (equation 8)." },
  { name: "outcome", label: "outcome part", shared: true, about: "GRPO's advantage of the response times the gate (equation 2)." },
  { name: "progress", label: "progress part", about: "Credit from within the response: eta times gate, anchor and aligned progress signal (equation 7)." },
  { name: "gate", label: "gate", about: "W, how much the token counts: near 1 where entropy is above the group's mean (equation 2)." },
  { name: "entropy", label: "entropy", about: "How unsure the policy was before the token, in nats." },
  { name: "progress_coordinate", label: "progress coordinate", about: "tau, the share of the response's entropy that is spent up to the token (equation 4)." },
  { name: "bucket", label: "bucket", about: "Stage of logical progress; only tokens of one bucket are compared with each other (equation 4)." },
  { name: "log_ratio", label: "log-ratio", about: "log-probability under the policy minus that under the frozen reference, in nats." },
  { name: "difference", label: "difference to GRPO", shared: true, about: "EP-GRPO's advantage minus the one that plain GRPO gives to every token." },
];
const BY_NAME = new Map(QUANTITIES.map((quantity) => [quantity.name, quantity]));

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 0.001 && size < 10000 ? value.toPrecision(3) : value.toExponential(1);
  return text.replace("-", "−");
}

const signed = (value) => (value > 0 ? "+" : "") + number(value);

/** The trace's value of one token; null where it is masked or was not computed. */
function valueOf(response, name, index) {
  if (!response.mask[index]) return null;
  if (name === "difference") return response.advantage[index] - response.grpo_advantage;
  const values = response[name];
  return values ? values[index] : null;
}

function valuesOf(group, name) {
  return group.responses.flatMap((response) =>
    response.ids.map((_, index) => valueOf(response, name, index)).filter((value) => value !== null));
}

function scaleOf(group, quantity, config) {
  if (quantity.shared) {
    const all = QUANTITIES.filter((other) => other.shared).flatMap((other) => valuesOf(group, other.name));
    return divergingScale([...all, ...group.responses.map((response) => response.grpo_advantage)], 99.5);
  }
  if (quantity.name === "bucket") return sequentialScale(0, config.num_buckets - 1);
  if (quantity.name === "gate" && !config.gate_normalize) return sequentialScale(0, 1);
  if (quantity.name === "progress_coordinate") return sequentialScale(0, 1);
  const values = valuesOf(group, quantity.name);
  return ["entropy", "gate"].includes(quantity.name) ? sequentialScale(0, quantile(values, 0.98), values, 98) : divergingScale(values);
}

/** What is shown for a token: line ends, tabs and invisible characters get a visible sign. */
function shownText(response, index) {
  const text = response.tokens ? response.tokens[index] : `[${response.ids[index]}]`;
  if (text === "") return { text: "·", standIn: true };
  const visible = text.replace(/\r?\n/g, "↵\n").replace(/\t/g, "⇥\t").replace(/[^\P{C}\n\t]|[\p{Zl}\p{Zp}]/gu, (character) =>
    `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  return { text: visible, standIn: !response.tokens };
}

function rewardSummary(group, theta) {
  if (group.zero_variance) return `all rewards ${number(group.responses[0].reward)}`;
  const right = group.responses.filter((response) => response.reward > theta).length;
  return `${right} of ${group.responses.length} rewards above ${theta}`;
}
