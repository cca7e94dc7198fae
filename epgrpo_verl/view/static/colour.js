// Copyright 2026 The epgrpo_verl Authors
// SPDX-License-Identifier: Apache-2.0
"use strict";
// Colour ramps and scales. Both ramps change in lightness all along, so they work without telling hues apart.

const RAMPS = {
  // Below zero orange, above zero blue.
  diverging: ["#9c4300", "#d9781a", "#f6b97a", "#fbe6d0", "#ffffff", "#d6e6f4", "#8fbfe3", "#3c86c6", "#0f4a8f"],
  // More is darker.
  sequential: ["#fdfcee", "#e3f0d3", "#abdac5", "#64b4c4", "#3585b4", "#28559a", "#1b2a66"],
};

function rgb(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

/** Colour at a place between 0 and 1 of a ramp, as [red, green, blue]. */
function ramp(name, place) {
  const stops = RAMPS[name];
  const at = Math.min(Math.max(place, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [rgb(stops[low]), rgb(stops[low + 1])];
  return from.map((value, channel) => Math.round(value + (to[channel] - value) * (at - low)));
}

/** Black or white, whichever has more contrast on a colour (relative luminance of WCAG 2). */
function ink(colour) {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

/** Value below which the share q of some numbers is. */
function quantile(values, q) {
  if (!values.length) return 0;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

/**
 * A scale from values to colours. A single far-off value must not wash out all others, so colours saturate at a
 * percentile of the absolute values; `cut` says whether any value lies beyond.
 */
function divergingScale(values, percentile = 98) {
  const sizes = values.map(Math.abs);
  const top = quantile(sizes, percentile / 100) || quantile(sizes, 1) || 1;
  const cut = sizes.some((value) => value > top);
  return { kind: "diverging", percentile, low: -top, high: top, cut, place: (value) => 0.5 + value / top / 2 };
}

function sequentialScale(low, high, values = [], percentile = 100) {
  const span = high - low || 1;
  return { kind: "sequential", percentile, low, high, cut: values.some((value) => value > high), place: (value) => (value - low) / span };
}

function paint(element, scale, value) {
  const colour = ramp(scale.kind, scale.place(value));
  element.style.backgroundColor = `rgb(${colour.join(",")})`;
  element.style.color = ink(colour);
}
