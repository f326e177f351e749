"""The settings of events: their names, how their values are shown, and alerts about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.measures import Measure
from clickcurve.keys import link_key
from server.settings.events import NO_UNIT, Unit
from server.settings.reading import read_settings
from server.settings.table import Settings

EVENTS = '[events]\nnames = ["lead", "sale"]\n[events.sale]\nunit = "EUR"\ndecimals = 2\n'
ALERT = '[[alerts]]\nlink = "a"\nwhen = "over 5 in 1h"\nmail = "a@a.example"\n'


def read(folder: Path, text: str) -> Settings:
    file = folder / "clickcurve.toml"
    file.write_text(text)
    return read_settings({"config": str(file)}, {})


def test_names_and_units_are_read(tmp_path: Path) -> None:
    settings = read(tmp_path, EVENTS)
    assert settings.events_names == ("lead", "sale")
    assert (settings.unit("sale"), settings.unit("lead")) == (Unit("EUR", 2), NO_UNIT)
    assert read_settings({"events_names": "sale"}, {}).events_names == ("sale",)
    assert read_settings({}, {}).events_names == ()


@pytest.mark.parametrize(
    ("unit", "amount", "text"),
    [
        (Unit("EUR", 2), 123450, "1,234.50 EUR"),
        (Unit("EUR", 2), 5, "0.05 EUR"),
        (Unit("EUR", 2), -5, "-0.05 EUR"),
        (Unit("pt", 0), 7, "7 pt"),
        (NO_UNIT, 1234, "1,234"),
    ],
)
def test_an_amount_is_shown_in_its_unit(unit: Unit, amount: int, text: str) -> None:
    assert unit.shown(amount) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[events]\nnames = ["click"]\n', "events_names"),
        ('[events]\nnames = ["Sale"]\n', "events_names"),
        ('[events]\nnames = ["sale", "sale"]\n', "events_names"),
        (f"[events]\nnames = {[f'e{n}' for n in range(17)]}\n", "at most 16 names"),
        (EVENTS.replace('"EUR"', "3"), "events.sale.unit is 3"),
        (EVENTS.replace("decimals = 2", "decimals = 7"), "decimals is 7: it must be an integer from 0 to 6"),
        (EVENTS.replace("decimals", "digits"), "events.sale has no field digits"),
        ('[events]\nnames = ["sale"]\n[events.order]\nunit = "EUR"\n', "events.order is not an event"),
        (f'{EVENTS}{ALERT}event = "order"\n', "is about the event 'order', which is not counted; events: lead, sale"),
        (f'{EVENTS}{ALERT}measure = "value"\n', "values are those of an event"),
        (f'{EVENTS}{ALERT}event = "sale"\nmeasure = "sum"\n', "measure is 'sum'"),
        (f'{EVENTS}{ALERT}event = "Sale"\n', "event is 'Sale'"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingInvalid, match=message.replace(".", r"\.")):
        read(tmp_path, text)


def test_an_alert_may_watch_an_event_or_its_values(tmp_path: Path) -> None:
    (sales,) = read(tmp_path, f'{EVENTS}{ALERT}event = "sale"\n').alerts
    (amounts,) = read(tmp_path, f'{EVENTS}{ALERT}event = "sale"\nmeasure = "value"\n').alerts
    assert (sales.stored, sales.subject) == (Measure("sale").row(link_key("a")), "the event sale of link a")
    assert amounts.stored == Measure("sale", of_values=True).row(link_key("a"))
    assert sales.source != amounts.source


def test_an_amount_between_two_names_both_unless_they_meet() -> None:
    assert Unit("EUR", 2).between(154_690, 154_690) == "1,546.90 EUR"
    assert Unit("EUR", 2).between(0, 5) == "0.00 EUR to 0.05 EUR"
