# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Units, one spelling each, so that ``5 inches`` agrees with ``5 in`` and with ``5``, and not with ``5 cm``."""

_SPELLINGS = {
    "mm": "mm millimeter millimetre",
    "cm": "cm centimeter centimetre",
    "m": "m meter metre",
    "km": "km kilometer kilometre",
    "in": "in inch inche",
    "ft": "ft foot feet",
    "yd": "yd yard",
    "mi": "mi mile",
    "s": "s sec second",
    "min": "min minute",
    "h": "h hr hour",
    "day": "day",
    "week": "week",
    "year": "yr year",
    "g": "g gram",
    "kg": "kg kilogram",
    "lb": "lb pound",
    "oz": "oz ounce",
    "l": "l liter litre",
    "ml": "ml milliliter millilitre",
    "deg": "deg degree",
    "rad": "rad radian",
    "dollar": "dollar usd",
    "cent": "cent",
    "mph": "mph mile/hour milesperhour mile/h mi/h",
    "km/h": "kmh kph km/h kmperhour kilometersperhour",
    "m/s": "m/s ms^{-1} meterspersecond",
    "am": "am",
    "pm": "pm",
    "unit": "unit",
}
_CANONICAL = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings.split()}


def canonical_unit(words: str, exponent: str | None = None) -> str | None:
    """Returns the one spelling of a unit, such as ``cm^2`` for ``square centimeters``, or ``None`` if unknown."""
    key = words.lower().replace(".", "")
    square, key = _take_power(key)
    key = "".join(key.split())
    unit = _CANONICAL.get(key) or (_CANONICAL.get(key[:-1]) if key.endswith("s") else None)
    if unit is None:
        return None
    power = exponent or square
    return unit if power in (None, "1") else f"{unit}^{power}"


def _take_power(words: str) -> tuple[str | None, str]:
    for prefix, power in (("square ", "2"), ("sq ", "2"), ("cubic ", "3")):
        if words.strip().startswith(prefix):
            return power, words.strip().removeprefix(prefix)
    return None, words


def units_agree(pred: str | None, gold: str | None) -> bool:
    """Tells whether two units agree. A missing or unknown unit agrees with any."""
    return pred is None or gold is None or pred == gold
