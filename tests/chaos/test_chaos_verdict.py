"""The judge of chaos finds lost steps, other losses and other weights; it does not cry wolf."""

import types

import numpy as np
import pytest

from chaos import plan, record, report, verdict
from chaos.record import Event
from replicate.hooks import StallHook

# Records of jobs of a chief and a worker that never ran.


def session(task, at, first, last, ready=None):
    """Returns the events of a session that makes steps, ten in a second; its losses are steps."""
    begin = Event(at, task, "ready", first if ready is None else ready)
    steps = range(first, last + 1)
    made = [Event(at + 0.1 * (i + 1), task, "step", n, loss=float(n)) for i, n in enumerate(steps)]
    return [begin, *made]


def end(task, at, status=-9):
    return Event(at, task, "end", status=status)


def saved(at, step):
    return Event(at, "chief/0", "saved", step)


def joined(*parts):
    events = [event for part in parts for event in (part if isinstance(part, list) else [part])]
    return sorted(events)


def synchronous():
    """The worker is killed after step 7; both begin again at the checkpoint of step 5."""
    return joined(
        saved(0, 0),
        session("chief/0", 0, 0, 7),
        session("worker/0", 0, 0, 7),
        saved(0.6, 5),
        end("worker/0", 1.0),
        Event(1.5, "worker/0", "start"),
        session("chief/0", 3, 5, 9),
        session("worker/0", 3, 5, 9),
    )


EXPECTED = {(task, step): float(step) for task in ("chief/0", "worker/0") for step in range(10)}
ANY = ("chief/0", "worker/0", "ps/0")


def of_synchronous(events, steps=10):
    """Returns all that a judge says about losses and steps."""
    found = verdict.step_problems(events, ["chief/0", "worker/0"], steps)
    found += verdict.loss_problems(events, EXPECTED, 1e-12)[0]
    return [*found, *verdict.restore_problems(events, ANY, set(), True)]


def changed(events, task, number, at_least=0.0, **fields):
    """Returns the events with one step of a task changed; without it if nothing is."""
    found = [e for e in events if (e.task, e.kind, e.step) == (task, "step", number)]
    chosen = next(event for event in found if event.at >= at_least)
    return [
        e if e is not chosen else e._replace(**fields) for e in events if e is not chosen or fields
    ]


def test_a_synchronous_job_that_repeats_steps_is_right():
    assert of_synchronous(synchronous()) == []


def test_a_lost_step_is_found():
    (problem,) = of_synchronous(changed(synchronous(), "worker/0", 3))
    assert problem.startswith("worker/0 began at step 0 at 0.0 s, and made step 4 where 3 was next")


def test_steps_lost_between_sessions_are_found():
    events = [e for e in synchronous() if e.at < 3]
    later = joined(session("chief/0", 3, 9, 9), session("worker/0", 3, 9, 9))
    assert of_synchronous(joined(events, later)) == [
        "no task made steps [8], 1 in all",
        "the chief restored step 9 at 3.0 s, but step 5 was saved",
    ]
    later = joined(session("chief/0", 3, 10, 10), session("worker/0", 3, 10, 10))
    found = of_synchronous(joined(events, later), 11)
    assert "worker/0 never made steps 8 to 9" in found


def test_a_step_that_counts_twice_is_found():
    first, second, *_ = of_synchronous(changed(synchronous(), "chief/0", 6, step=5))
    assert first.endswith("made step 5 where 6 was next")
    assert second.startswith("chief/0 had loss 6.0 in step 5")


def test_a_job_that_ends_early_is_found():
    assert of_synchronous(synchronous(), 11)[0] == "no task made steps [10], 1 in all"


@pytest.mark.parametrize("loss", [6.001, float("nan"), float("inf")])
def test_a_repeated_step_with_another_loss_is_found(loss):
    events = changed(synchronous(), "chief/0", 6, at_least=3.0, loss=loss)
    problems, largest = verdict.loss_problems(events, EXPECTED, 1e-12)
    assert len(problems) == 2 and "6.0 before" in problems[1]
    assert largest > 1e-4


def test_losses_may_differ_in_their_last_digits():
    events = changed(synchronous(), "chief/0", 6, loss=6.0 * (1 + 1e-14))
    problems, largest = verdict.loss_problems(events, EXPECTED, 1e-12)
    assert problems == [] and 0 < largest < 1e-12


def test_small_losses_have_the_rounding_errors_of_large_ones():
    """Seed 25: after 4,093 steps a loss of 1.92e-5 differed by 2e-17."""
    small = {**EXPECTED, ("chief/0", 3): 1.9209338033266382e-05}
    events = changed(synchronous(), "chief/0", 3, loss=1.9209338033288588e-05)
    problems, largest = verdict.loss_problems(events, small, 1e-12)
    assert problems == [] and 0 < largest < 1e-17
    events = changed(events, "chief/0", 3, loss=1.921e-05)
    (problem,), _ = verdict.loss_problems(events, small, 1e-12)
    assert problem == "chief/0 had loss 1.921e-05 in step 3, 1.9209338033266382e-05 uninterrupted"


def test_a_chief_that_restores_without_a_cause_is_found():
    events = [event for event in synchronous() if event.kind != "end"]
    (problem,) = verdict.restore_problems(events, ANY, set(), True)
    assert problem == "the chief restored step 5 at 3.0 s, but no task was lost since it did before"


def test_a_connection_that_breaks_is_told_and_no_problem():
    """TensorFlow makes a new session then, as for a lost task; the checkpoint must be right."""
    events = [event for event in synchronous() if event.kind != "end"]
    lost = Event(2.0, "chief/0", "lost", text="Socket closed")
    made = joined(events, lost)
    assert verdict.restore_problems(made, ANY, set(), True) == []
    record_of = types.SimpleNamespace(events=made)
    cluster = types.SimpleNamespace(names=lambda: list(ANY))
    job = types.SimpleNamespace(name="mine", record=record_of, cluster=cluster, is_sync=True)
    assert report.connections_lost(job) == ["mine: at 3.0 s: Socket closed"]
    # Only an error of the session before explains it, and only one of the chief.
    for other in (lost._replace(at=3.5), lost._replace(task="worker/0")):
        assert len(verdict.restore_problems(joined(events, other), ANY, set(), True)) == 1
    # The loss of a task that happened is its cause.
    record_of.events = joined(synchronous(), lost)
    assert report.connections_lost(job) == []
    older = joined(made, saved(1.2, 7))
    (problem,) = verdict.restore_problems(older, ANY, set(), True)
    assert problem == "the chief restored step 5 at 3.0 s, but step 7 was saved"


def test_a_checkpoint_that_is_older_than_the_last_is_found():
    events = joined(synchronous(), saved(1.2, 2))
    found = verdict.restore_problems(events, ANY, set(), True)
    assert found == [
        "the chief restored step 5 at 3.0 s, but step 2 was saved",
        "step 5 was saved, but at 1.2 s the newest checkpoint has step 2",
    ]
    # A checkpoint that is damaged is not restored, and the one before it may be the newest then.
    assert verdict.restore_problems(events, ANY, {2}, True) == found[1:]
    assert verdict.restore_problems(events, ANY, {5}, True) == found[:1]


def test_a_chief_that_is_told_to_leave_must_resume_there():
    events = [Event(1, "chief/0", "told", 8), *session("chief/0", 3, 5, 9)]
    assert verdict.told_problems(events, set(), True) == [
        "the chief saved step 8 and left, but resumed 5"
    ]
    assert verdict.told_problems(events, {8}, True) == []


def asynchronous():
    """The chief is killed; the worker goes on until it restores the checkpoint of step 5."""
    return joined(
        saved(0, 0),
        session("chief/0", 0, 0, 7),
        saved(0.6, 5),
        end("chief/0", 1.0),
        session("worker/0", 0.9, 8, 29),
        session("chief/0", 3.2, 5, 5),
        session("worker/0", 3.3, 6, 45)[1:],
    )


ASYNC = ["chief/0", "worker/0"]


def of_asynchronous(events, counted=46):
    found = verdict.drop_problems(events, ASYNC) + verdict.count_problems(events, ASYNC, counted)
    return found + verdict.restore_problems(events, ["chief/0", "ps/0"], set(), False)


def test_an_asynchronous_job_that_goes_back_with_its_chief_is_right():
    assert of_asynchronous(asynchronous()) == []


def test_an_asynchronous_task_that_goes_back_by_itself_is_found():
    events = joined([e for e in asynchronous() if e.at < 3], session("worker/0", 3.3, 6, 45)[1:])
    (problem,) = verdict.drop_problems(events, ASYNC)
    assert problem.startswith("worker/0 made step 6 after 27 at 3.4 s, but the chief restored no")
    events = changed(asynchronous(), "worker/0", 20, step=19)
    assert len(verdict.drop_problems(events, ASYNC)) == 0  # A restore is near.
    far = [e._replace(at=e.at + 100) if e.at > 3.1 else e for e in events]
    assert len(verdict.drop_problems(far, ASYNC)) == 1


@pytest.mark.parametrize("counted", [30, 60, 86])
def test_steps_that_are_lost_or_counted_twice_are_found(counted):
    (problem,) = verdict.count_problems(asynchronous(), ASYNC, counted)
    assert "tasks made 41 steps since the chief was ready at step 5 for the last time" in problem


def test_a_task_that_ends_without_a_fault_is_found():
    events = [end("worker/0", 10.0), end("chief/0", 12.0, 1), end("chief/0", 20.0, 0)]
    excuses = [verdict.Excuse(9.0, 11.0, task) for task in ("worker/0", "chief/0")]
    (problem,) = verdict.end_problems(events, excuses)
    assert problem == "chief/0 ended with status 1 at 12.0 s, but no fault had hit it"
    assert verdict.end_problems(events, [verdict.Excuse(9.0, 13.0)]) == []


def test_a_fault_costs_the_time_until_a_step_that_began_after_it():
    found = record.cost(synchronous(), 0.95, "worker/0", 1, 2)
    # Step 7 was running then; the chief went back from step 8 to 5.
    assert found.cost_s == pytest.approx(3.5 - 0.95)
    assert found.task_s == pytest.approx(3.1 - 0.95)
    assert found.back == 3
    assert record.cost(synchronous(), 3.25, "worker/0", 1, 2).cost_s == pytest.approx(0.15)
    assert record.cost(synchronous(), 3.5, "worker/0", 1, 2) == record.Cost(None, None, None)


def test_a_lost_chief_costs_the_steps_that_others_made_meanwhile():
    assert record.cost(asynchronous(), 1.0, "chief/0", 2, 2).cost_s == pytest.approx(0.2)
    found = record.cost(asynchronous(), 1.0, "chief/0", 2, 2, is_undone=True)
    assert found.cost_s == pytest.approx(3.3 - 1.0)
    assert found.back == 25


def test_lines_of_tasks_are_events():
    now = iter(range(100))
    made = record.Record(lambda: next(now))
    lines = [
        "ready at step 5",
        "step 5 loss 0.25",
        "WARNING:tensorflow:replicate: told to leave; step 6 is saved in x. Exit status: 143.",
        "step 7 of many",
    ]
    for line in lines:
        made.heard("chief/0", line)
    assert [event[1:4] for event in made.events] == [
        ("chief/0", "ready", 5),
        ("chief/0", "step", 5),
        ("chief/0", "told", 6),
    ]
    assert made.events[1].loss == 0.25
    assert made.step() == 5


def test_the_error_of_a_lost_session_has_lines_that_lead_to_it():
    made = record.Record()
    begin = "INFO:tensorflow:An error was raised. This may be due to a preemption. Error: "
    made.heard("chief/0", begin + "Graph execution error:")
    made.heard("worker/0", begin + "Step was cancelled.")
    made.heard("worker/0", "Socket closed")
    for line in ("", "=====", "CANCELLED: From /job:ps/replica:0/task:0:", "Socket closed"):
        made.heard("chief/0", line)
    made.heard("chief/0", "Additional GRPC error information")
    assert [(event.task, event.kind, event.text) for event in made.events] == [
        ("worker/0", "lost", "Step was cancelled."),
        ("chief/0", "lost", "Socket closed"),
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("w", 1 + 1e-9), ("w", float("nan")), ("w", float("inf")), ("b", 1.0)]
)
def test_other_weights_are_found(name, value):
    expected = {"w": np.array([1.0, 2.0]), "global_step": np.array(9)}
    same = {**expected, "w": np.array([1.0 + 1e-15, 2.0])}
    problems, largest = report.weight_problems(same, expected, 1e-12)
    assert problems == [] and 0 < largest < 1e-15
    other = {**expected, name: np.array([1.0, value])}
    (problem,), _ = report.weight_problems(other, expected, 1e-12)
    assert problem.startswith("weights ")


def happening(kind, task, begun, ended):
    fault = plan.Fault(0.5, 0.0, kind, task, 1.0, 1.0, "")
    return types.SimpleNamespace(fault=fault, begun=begun, ended=ended, facts={})


def test_faults_excuse_the_ends_of_their_tasks_alone():
    happened = [
        happening("kill", "worker/0", 10.0, 12.0),
        happening("stop", "worker/1", 10.0, 12.0),
        happening("all", plan.ALL, 50.0, 52.0),
        happening("kill", "worker/2", None, None),
    ]
    ends = [end(f"worker/{i}", at) for i in range(3) for at in (11.0, 53.0)]
    found = verdict.end_problems(ends, report.excuses(happened))
    assert [problem.partition(" ")[0] for problem in found] == ["worker/1", "worker/2"]


@pytest.mark.parametrize(
    ("at", "status", "is_right"),
    [(105.0, 138, True), (105.0, 1, False), (89.0, 138, False)],
)
def test_a_task_that_stood_still_may_end(at, status, is_right):
    events = joined(Event(0.0, "worker/0", "start"), session("worker/0", 8.0, 0, 19))  # To 10 s.
    events.append(end("worker/0", at, status))
    job = types.SimpleNamespace(
        name="mine", record=types.SimpleNamespace(events=events), stall_secs=90
    )
    assert report.stalled(job) == (["mine: worker/0 from 10.0 to 105.0 s"] if is_right else [])
    stalled = verdict.stalls(events, report.STALLED, 90)
    assert (verdict.end_problems(events, [], stalled) == []) == is_right
    assert report.STALLED == StallHook.EXIT_STATUS


def test_a_task_that_stands_still_from_its_start_may_end():
    events = [Event(5.0, "worker/0", "start"), end("worker/0", 105.0, 138)]
    assert verdict.stalls(events, 138, 90) == [("worker/0", 5.0, 105.0)]


@pytest.mark.parametrize(
    ("task", "status", "is_right"),
    [("worker/0", 143, True), ("worker/0", -9, False), ("worker/0", 1, False), ("ps/0", -15, True)],
)
def test_statuses_of_tasks_that_are_told_to_leave(task, status, is_right):
    one = happening("preempt", task, 10.0, 12.0)
    job = types.SimpleNamespace(record=types.SimpleNamespace(events=[end(task, 11.0, status)]))
    assert (not report.preemption_problems(job, [one], [[one.fault]])) == is_right
    assert report.preemption_problems(job, [one], [[one.fault, one.fault]]) == []
