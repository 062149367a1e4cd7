from __future__ import annotations

from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.utils import timezone

from portal.accounts import services
from portal.accounts.models import ApiToken, Membership, Quota, User
from portal.errors import Conflict, Invalid, InvalidFields, NotFound

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(make_user):
    return make_user("root", superuser=True)


def rows_of(instance):
    return list(LogEntry.objects.get_for_object(instance).order_by("id"))


def test_every_write_leaves_a_row_with_its_actor(admin):
    user = services.create_user(admin, username="ada", password="correct horse battery")
    team = services.create_team(admin, name="vision")
    membership = services.set_membership(admin, user, team, role=Membership.Role.MANAGER)
    quota = services.set_quota(admin, team, max_devices=4)
    for instance in (user, team, membership, quota):
        assert [row.actor for row in rows_of(instance)] == [admin], instance
    services.set_quota(admin, team, max_devices=2, max_queued_jobs=None)
    assert rows_of(quota)[-1].changes == {"max_devices": ["4", "2"]}
    services.remove_membership(admin, user, team)
    assert not Membership.objects.exists()
    assert LogEntry.objects.filter(action=LogEntry.Action.DELETE).get().actor == admin


def test_no_audit_row_holds_a_password_hash(admin):
    user = services.create_user(admin, username="ada", password="correct horse battery")
    user.set_password("another horse battery")
    user.save()
    last = rows_of(user)[-1]
    assert last.changes == {"password": ["••••", "••••"]}
    assert all("pbkdf2" not in str(row.changes) and "argon" not in str(row.changes) for row in rows_of(user))


def test_a_weak_password_and_a_taken_name_are_refused_by_field(admin, make_user):
    make_user("ada")
    with pytest.raises(Conflict) as taken:
        services.create_user(admin, username="ada", password="correct horse battery")
    assert taken.value.field == "username"
    with pytest.raises(Invalid) as weak:
        services.create_user(admin, username="bob", password="short")
    assert weak.value.field == "password"
    assert not User.objects.filter(username="bob").exists()


def test_a_quota_belongs_to_one_subject_and_keeps_unnamed_limits(admin, make_user):
    user = make_user("ada")
    services.set_quota(admin, user, max_devices=4, max_running_jobs=2)
    quota = services.set_quota(admin, user, max_devices=None)
    assert (quota.max_devices, quota.max_running_jobs, quota.team) == (None, 2, None)
    assert Quota.objects.count() == 1
    with pytest.raises(InvalidFields):
        services.set_quota(admin, user, max_job_seconds=5)


def test_a_token_is_shown_once_and_can_be_revoked(make_user):
    user, other = make_user("ada"), make_user("bob")
    token, text = services.create_token(user, name="laptop", scope=ApiToken.Scope.READ)
    assert text not in str(ApiToken.objects.values())
    with pytest.raises(NotFound):
        services.revoke_token(other, token.token_key)
    services.revoke_token(user, token.token_key)
    assert not ApiToken.objects.exists()


def test_a_token_that_cannot_work_is_refused_with_every_field(make_user):
    with pytest.raises(InvalidFields) as refused:
        services.create_token(make_user(), name=" ", scope="all", expires_at=timezone.now() - timedelta(days=1))
    assert {error.field for error in refused.value.errors} == {"name", "scope", "expires_at"}
