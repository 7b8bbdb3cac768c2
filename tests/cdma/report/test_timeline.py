"""Timelines for the page: every event of a trace, and the plans that were shown to be fastest."""

import copy

import pytest

from cdma.errors import UserError
from cdma.plan.timeline.gantt_chart import COLORS
from cdma.report import timeline
from cdma.report.documents import Document
from cdma.report.sections.schedule import trace_section
from cdma.report.timeline import timeline_of_runs, timeline_of_trace
from tests.cdma.report.results import result, trace


def test_every_event_of_the_trace_is_there():
    data = timeline_of_trace(trace(), "t", where="t.json").data
    slices = [event for event in trace()["traceEvents"] if event["ph"] == "X"]
    made = [(group, event) for group in data["groups"] for event in group["events"]]
    assert len(made) == len(slices) > 100
    told = {
        (
            group["title"],
            data["lanes"][lane],
            data["kinds"][kind][0],
            start * 1000,
            duration * 1000,
            data["names"][name],
            nbytes,
        )
        for group, (lane, kind, start, duration, name, nbytes, _, _) in made
    }
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace()["traceEvents"]
        if event["ph"] == "M" and event["name"] in ("process_name", "thread_name")
    }
    for event in slices:
        row = (
            names[event["pid"], 0],
            names[event["pid"], event["tid"]],
            event["cat"],
            pytest.approx(event["ts"]),
            pytest.approx(event["dur"]),
            event["name"],
            event["args"]["bytes"],
        )
        assert row in [each for each in told if each[5] == event["name"]]
    assert dict(data["kinds"]) == {kind: COLORS[kind] for kind, _ in data["kinds"]}
    assert {group["limit"] for group in data["groups"]} == {2_200_000_000}
    assert all(group["memory"] for group in data["groups"])


def test_reasons_and_causes_are_names():
    data = timeline_of_trace(trace(), "t", where="t.json").data
    reasons = {data["names"][event[6]] for group in data["groups"] for event in group["events"]}
    assert {"start", "computed", "arrived"} <= reasons


def test_the_best_policies_of_the_report_are_shown():
    documents = [Document("s.json", result("schedule")), Document("t.json", trace())]
    (made,) = trace_section(documents[1], documents).parts
    shown = {group["name"] for group in made.data["groups"] if group["shown"]}
    worth = result("schedule")["engine_worth"][0]
    assert len(shown) == timeline.SHOWN
    assert {worth["without"], worth["with"]} <= shown
    assert "oracle" not in shown
    # Without the report, those that take least.
    (alone,) = trace_section(documents[1], documents[1:]).parts
    shown = [group for group in alone.data["groups"] if group["shown"]]
    hidden = [group for group in alone.data["groups"] if not group["shown"]]
    assert max(g["end"] for g in shown) <= min(g["end"] for g in hidden)


def test_groups_that_are_not_shown_make_room(monkeypatch):
    monkeypatch.setattr(timeline, "MOST_EVENTS", 1)
    data = timeline_of_trace(trace(), "t", where="t.json", shown=["vdnn"]).data
    assert [group["name"] for group in data["groups"]] == ["vdnn"]


def test_copies_of_the_rtl_stand_beside_the_plan_s():
    plan = {
        "policy": "cdma",
        "cycles": 120,
        "timeline_cycles": 100.5,
        "copies": [
            {"tensor": "relu1", "way": "out", "bytes": 256, "stream_bytes": 64}
            | {"start_cycle": 3, "end_cycle": 30}
            | {"timeline_start_cycle": 2.5, "timeline_end_cycle": 28.5},
            {"tensor": "relu1", "way": "in", "bytes": 256, "stream_bytes": 64}
            | {"start_cycle": 60, "end_cycle": 90}
            | {"timeline_start_cycle": 58.0, "timeline_end_cycle": 88.0},
        ],
    }
    data = timeline_of_runs([plan], "t").data
    (group,) = data["groups"]
    assert data["unit"] == "cycles"
    assert group["end"] == 120
    assert [(data["lanes"][e[0]], e[2], e[3]) for e in group["events"]] == [
        ("out, planned", 2.5, 26.0),
        ("out, RTL", 3, 27),
        ("in, planned", 58.0, 30.0),
        ("in, RTL", 60, 30),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t.update(traceEvents=None),
        lambda t: t["traceEvents"][0].pop("ph"),
        lambda t: t["traceEvents"][-1].update(ts="soon"),
        lambda t: t["traceEvents"][-1].update(ts=float("nan")),
        lambda t: t.update(otherData=[]),
    ],
)
def test_damaged_traces_are_refused(damage):
    damaged = copy.deepcopy(trace())
    damage(damaged)
    with pytest.raises(UserError, match=r"^t\.json has traceEvents, but not as cdma schedule"):
        timeline_of_trace(damaged, "t", where="t.json")
