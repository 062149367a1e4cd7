"""The admin's people, teams, quotas and tokens, posted as a browser would."""

from __future__ import annotations

import re

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from portal.accounts import services
from portal.accounts.models import ApiToken, Membership, Quota, Team, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(make_user, client):
    user = make_user("root", superuser=True)
    client.force_login(user)
    return user


def form_of(page: str) -> dict[str, str]:
    """The values a browser would send back: inputs, checked boxes, chosen options and text areas of the change form."""
    data = {}
    for tag in re.findall(r"<input[^>]*>", page):
        attributes = dict(re.findall(r'([a-z_-]+)="([^"]*)"', tag))
        name, kind = attributes.get("name"), attributes.get("type", "text")
        if not name or "__prefix__" in name or kind in ("submit", "button", "file"):
            continue
        if kind in ("checkbox", "radio") and " checked" not in tag:
            continue
        data[name] = attributes.get("value", "on" if kind == "checkbox" else "")
    for name, body in re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        chosen = re.findall(r'<option value="([^"]*)"[^>]*selected', body)
        if "__prefix__" not in name and chosen:
            data[name] = chosen[0]
    data.pop("action", None)
    return data


def change(client, instance, **values):
    """Open the change page, alter some fields, press Save; returns the page that follows."""
    url = reverse(f"admin:{instance._meta.app_label}_{instance._meta.model_name}_change", args=[instance.pk])
    page = client.get(url).content.decode()
    data = {name: value for name, value in form_of(page).items() if value is not None}
    return client.post(url, {**data, **values, "_save": "Save"}, follow=True)


def text_of(response) -> str:
    assert response.status_code == 200
    return response.content.decode()


def last_row(instance) -> LogEntry:
    return LogEntry.objects.get_for_object(instance).order_by("id").last()


def test_a_user_is_created_with_the_password_form_and_can_sign_in(root, client):
    url = reverse("admin:accounts_user_add")
    page = text_of(client.get(url))
    assert 'type="password"' in page
    made = client.post(
        url,
        {
            "username": "ada",
            "usable_password": "true",
            "password1": "correct horse battery",
            "password2": "correct horse battery",
        },
        follow=True,
    )
    assert made.status_code == 200
    user = User.objects.get(username="ada")
    assert user.check_password("correct horse battery")
    assert last_row(user).actor == root
    assert "correct horse" not in str(LogEntry.objects.values())


def test_every_page_of_the_admin_opens(root, client):
    team = Team.objects.create(name="vision")
    quota = Quota.objects.create(team=team, max_devices=4)
    membership = Membership.objects.create(team=team, user=root)
    for instance in (root, team, quota, membership):
        name = f"admin:{instance._meta.app_label}_{instance._meta.model_name}"
        for url in (
            reverse(f"{name}_changelist"),
            reverse(f"{name}_add"),
            reverse(f"{name}_change", args=[instance.pk]),
        ):
            text_of(client.get(url))
    text_of(client.get(reverse("admin:index")))
    text_of(client.get(reverse("admin:accounts_apitoken_changelist")))


def test_a_team_gets_a_quota_beside_its_use_with_an_audit_row(root, client, make_user):
    team = Team.objects.create(name="vision")
    for number in range(3):
        Job.objects.create(owner=root, team=team, name=f"j{number}", spec={}, queued_at=timezone.now())
    page = text_of(change(client, team, **{"quota-0-max_queued_jobs": "2", "quota-0-max_devices": "8"}))
    quota = Quota.objects.get(team=team)
    assert (quota.max_queued_jobs, quota.max_devices) == (2, 8)
    assert "vision uses 3 now, above the limit of 2 (queued jobs)" in page
    assert "3 / 2" in page
    row = last_row(quota)
    assert row.actor == root
    assert row.changes["max_queued_jobs"] == ["None", "2"]
    change(client, team, **{"quota-0-max_queued_jobs": "5"})
    assert last_row(quota).changes == {"max_queued_jobs": ["2", "5"]}


def test_a_users_quota_and_teams_are_edited_on_their_page(root, client, make_user):
    user, team = make_user("ada"), Team.objects.create(name="vision")
    membership = {
        "memberships-TOTAL_FORMS": "1",
        "memberships-0-team": str(team.pk),
        "memberships-0-role": "manager",
        "memberships-0-user": str(user.pk),
    }
    change(client, user, **{"quota-0-max_running_jobs": "2"}, **membership)
    assert Quota.objects.get(user=user).max_running_jobs == 2
    made = Membership.objects.get()
    assert (made.user, made.team, made.role) == (user, team, "manager")
    assert last_row(made).actor == root
    assert last_row(Quota.objects.get()).actor == root


def test_a_quota_without_or_with_two_subjects_is_refused_in_words(root, client, make_user):
    team = Team.objects.create(name="vision")
    url = reverse("admin:accounts_quota_add")
    for subjects in ({}, {"user": root.pk, "team": team.pk}):
        page = text_of(client.post(url, {**subjects, "max_devices": "3"}))
        assert "choose one of them" in page
    assert not Quota.objects.exists()
    client.post(url, {"team": team.pk, "max_devices": "3"})
    assert Quota.objects.get().max_devices == 3


def test_renaming_a_team_leaves_a_row(root, client):
    team = services.create_team(root, name="vision")
    change(client, team, name="sight")
    assert last_row(team).changes == {"name": ["vision", "sight"]}


def test_a_new_token_is_shown_once_and_works_only_for_its_maker(root, client, make_user):
    page = text_of(client.post(reverse("admin:accounts_apitoken_add"), {"name": "cron", "scope": "read"}, follow=True))
    text = re.search(r"not shown again: ([0-9a-f]+)", page)[1]
    token = ApiToken.objects.get()
    assert token.user == root
    assert text.startswith(token.token_key)
    assert text not in text_of(client.get(reverse("admin:accounts_apitoken_changelist")))
    assert last_row(token).actor == root


def test_staff_cannot_raise_themselves_or_touch_other_staff(client, make_user):
    helper, chief, ada = make_user("helper", staff=True), make_user("chief", superuser=True), make_user("ada")
    helper.user_permissions.set(Permission.objects.filter(content_type__model="user"))
    client.force_login(helper)
    for person in (helper, chief):
        change(client, person, username=person.username, is_superuser="on", email="new@example.org")
        person.refresh_from_db()
        assert person.email == ""
    page = change(client, ada, is_superuser="on", is_staff="on", email="new@example.org")
    assert page.status_code == 200
    ada.refresh_from_db()
    assert (ada.email, ada.is_superuser, ada.is_staff) == ("new@example.org", False, False)
    password = client.post(
        reverse("admin:auth_user_password_change", args=[chief.pk]),
        {"password1": "stolen horse battery", "password2": "stolen horse battery"},
    )
    assert password.status_code == 403


def test_the_audit_log_is_read_only_and_names_the_actor(root, client):
    team = services.create_team(root, name="vision")
    page = text_of(client.get(reverse("admin:auditlog_logentry_changelist")))
    assert "vision" in page
    assert "root" in page
    entry = last_row(team)
    text_of(client.get(reverse("admin:auditlog_logentry_change", args=[entry.pk])))
    assert client.get(reverse("admin:auditlog_logentry_add")).status_code == 403
    assert client.post(reverse("admin:auditlog_logentry_delete", args=[entry.pk]), {"post": "yes"}).status_code == 403
