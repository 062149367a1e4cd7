"""The admin's nodes, join codes and jobs."""

from __future__ import annotations

import re

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, JobEvent
from jobs.states import JobState
from nodes.models import JoinCode, Node, NodeEvent
from nodes.services.tokens import hash_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(make_user, client):
    user = make_user("root", superuser=True)
    client.force_login(user)
    return user


@pytest.fixture
def node(db):
    return Node.objects.create(name="n0", token_hash="x")


def act(client, model, action, *rows):
    """Choose rows of the list and run an action on them."""
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    answer = client.post(url, data, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize(("action", "admission"), [("cordon", "cordoned"), ("drain", "draining")])
def test_closing_and_opening_a_node_leaves_event_and_audit_row(root, client, node, action, admission):
    assert "1 node is changed" in act(client, Node, action, node)
    node.refresh_from_db()
    assert node.admission == admission
    act(client, Node, "uncordon", node)
    node.refresh_from_db()
    assert node.admission == "open"
    assert [event.actor for event in NodeEvent.objects.all()] == [root, root]
    rows = LogEntry.objects.get_for_object(node).filter(action=LogEntry.Action.UPDATE)
    assert [(row.actor, row.changes["admission"][1]) for row in rows.order_by("id")] == [
        (root, admission),
        (root, "open"),
    ]


def test_a_nodes_page_shows_no_secret(root, client, node):
    Node.objects.filter(pk=node.pk).update(broker_secret="brokersecret", token_hash="tokenhash")
    page = client.get(reverse("admin:nodes_node_change", args=[node.pk]))
    assert page.status_code == 200
    assert "brokersecret" not in page.content.decode()
    assert "tokenhash" not in page.content.decode()


def test_a_join_code_is_shown_once_and_kept_as_a_hash(root, client):
    page = client.post(reverse("admin:nodes_joincode_add"), {"node_name": "gpu7"}, follow=True).content.decode()
    text = re.search(r"nodes\.agent join \S+ (\S+?)\s*<", page)[1]
    code = JoinCode.objects.get()
    assert (code.code_hash, code.created_by, code.node_name) == (hash_of(text), root, "gpu7")
    assert text not in client.get(reverse("admin:nodes_joincode_changelist")).content.decode()
    assert LogEntry.objects.get_for_object(code).get().actor == root


def test_jobs_are_read_only_and_cancelled_with_event_and_audit_row(root, client, make_user):
    ada = make_user("ada")
    job = Job.objects.create(
        owner=ada, name="<img src=x onerror=alert(1)>", spec={"name": "x"}, queued_at=timezone.now()
    )
    over = Job.objects.create(owner=ada, name="over", spec={}, queued_at=timezone.now(), state=JobState.FAILED)
    page = client.get(reverse("admin:jobs_job_changelist")).content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    change = reverse("admin:jobs_job_change", args=[job.pk])
    assert client.get(change).status_code == 200
    assert client.post(change, {"name": "other"}).status_code == 403
    assert client.get(reverse("admin:jobs_job_add")).status_code == 403
    page = act(client, Job, "cancel", job, over)
    assert "1 job is cancelled" in page
    assert "over already" in page
    job.refresh_from_db()
    assert (job.state, job.ended_by) == (JobState.CANCELLED, root)
    assert JobEvent.objects.filter(job=job, actor=root).exists()
    row = LogEntry.objects.get_for_object(job).get()
    assert (row.actor, row.changes["state"]) == (root, ["queued", "cancelled"])


def test_staff_without_the_right_see_but_do_not_act(client, make_user, node):
    helper = make_user("helper", staff=True)
    helper.user_permissions.set(Permission.objects.filter(codename__in=["view_node", "view_job"]))
    client.force_login(helper)
    page = act(client, Node, "cordon", node)
    assert "is changed" not in page
    node.refresh_from_db()
    assert node.admission == "open"
