"""What services promise about datasets, versions, stored objects and room."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone

from datasets.models import Dataset, StoredObject, Upload, Version
from datasets.services import finish, objects, storage_use, uploads, versions
from datasets.services.datasets import change_dataset, create_dataset, delete_dataset
from datasets.states import MOVES, VersionState
from portal.accounts.models import Membership, Team
from portal.accounts.services import set_quota
from portal.errors import Conflict, Forbidden, Invalid, InvalidFields, NotFound, StorageFull

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(make_user):
    return make_user("ada")


@pytest.fixture
def version(ada, places):
    dataset = create_dataset(ada, name="Digits")
    return versions.add_version(ada, dataset, stored=objects.store_stream([b"a,b\n"]), file_name="a.csv")


FACTS = {
    "rows": 4,
    "columns": [
        {"name": "x", "type": "number", "classes": {}},
        {"name": "kind", "type": "text", "distinct": 2, "classes": {"a": 1, "b": 3}},
        {"name": "only", "type": "text", "distinct": 1, "classes": {"a": 4}},
    ],
    "label": "only",
    "warnings": [{"code": "one_class", "text": "one"}, {"code": "other", "text": "kept"}],
    "preview": [["1", "a", "a"]],
}


def inspected(version, decision="accept", facts=FACTS):
    number = versions.mark_inspecting(version)
    assert versions.apply_inspection(version.pk, number, {"kind": "table", "decision": decision, "facts": facts})
    version.refresh_from_db()
    return version


class TestObjects:
    def test_identical_content_is_stored_once(self, places):
        first, second = objects.store_stream([b"x"]), objects.store_stream([b"x"])
        assert first == second
        assert len(list(objects.storage().entries())) == 1

    def test_wrong_sum_and_too_many_bytes_leave_nothing(self, places):
        with pytest.raises(Invalid, match="SHA-256"):
            objects.store_stream([b"x"], sha256="0" * 64)
        with pytest.raises(Invalid, match="announced"):
            objects.store_stream([b"xyz"], max_bytes=2)
        assert not StoredObject.objects.exists()
        assert list(objects.storage().entries()) == []

    def test_sweep_takes_only_old_objects_without_a_row(self, version):
        free = objects.store_stream([b"free"])
        young = objects.store_stream([b"young"])
        old = timezone.now() - timedelta(days=2)
        StoredObject.objects.exclude(pk=young.pk).update(used_at=old)
        assert objects.sweep_objects() == 1
        assert not objects.storage().exists(free.key)
        assert objects.storage().exists(version.stored.key)

    def test_bytes_without_a_row_are_swept(self, places):
        kept = objects.store_stream([b"kept"])
        lost = objects.storage().put([b"lost"])
        assert objects.sweep_orphans(older_than_seconds=3600) == 0
        assert objects.sweep_orphans(older_than_seconds=0) == 1
        assert [entry.key for entry in objects.storage().entries()] == [kept.key]
        assert not objects.storage().exists(lost.key)

    @pytest.mark.django_db(transaction=True)
    def test_racing_stores_of_the_same_bytes_end_with_one(self, places):
        found = []

        def store():
            try:
                found.append(objects.store_stream([b"same"]).pk)
            finally:
                connections.close_all()

        run_all([store] * 6)
        assert len(set(found)) == 1
        assert len(found) == 6
        assert len(list(objects.storage().entries())) == 1


class TestVersions:
    def test_numbers_go_up(self, version, ada):
        second = versions.add_version(ada, version.dataset, stored=version.stored, file_name="b.csv")
        assert (version.number, second.number, second.state) == (1, 2, "waiting")

    @pytest.mark.parametrize(
        ("decision", "state"), [("accept", "ready"), ("question", "question"), ("refuse", "refused")]
    )
    def test_answer_decides(self, version, decision, state):
        assert inspected(version, decision).state == state
        assert version.facts["rows"] == 4

    def test_answer_to_an_older_inspection_is_dropped(self, version, ada):
        old = versions.mark_inspecting(version)
        versions.set_options(ada, version, header=False)
        new = versions.mark_inspecting(version)
        answer = {"kind": "table", "decision": "accept", "facts": {}}
        assert not versions.apply_inspection(version.pk, old, answer)
        assert versions.apply_inspection(version.pk, new, answer)
        assert not versions.apply_inspection(version.pk, new, answer)
        assert not versions.apply_inspection(version.pk + 1, 1, answer)

    def test_nonsense_from_a_node_refuses_the_version(self, version):
        number = versions.mark_inspecting(version)
        versions.apply_inspection(version.pk, number, {"decision": "dance", "facts": []})
        version.refresh_from_db()
        assert version.state == VersionState.REFUSED

    def test_lost_inspection_waits_again(self, version):
        number = versions.mark_inspecting(version)
        assert versions.fail_inspection(version.pk, number, "node lost", retry=True)
        assert versions.mark_inspecting(version) == number + 1

    def test_two_inspections_at_once_are_refused(self, version):
        versions.mark_inspecting(version)
        with pytest.raises(Conflict, match="inspecting"):
            versions.mark_inspecting(version)

    def test_known_label_needs_no_second_look(self, version, ada):
        inspected(version)
        changed = versions.set_options(ada, version, label="kind")
        assert (changed.state, changed.facts["label"], changed.facts["classes"]) == ("ready", "kind", {"a": 1, "b": 3})
        assert [warning["code"] for warning in changed.facts["warnings"]] == ["other"]

    @pytest.mark.parametrize("options", [{"label": "x"}, {"label": "only"}, {"encoding": "gbk"}, {"header": True}])
    def test_everything_else_is_inspected_again(self, version, ada, options):
        inspected(version)
        if options == {"label": "only"}:
            versions.set_options(ada, version, label="kind")
        assert versions.set_options(ada, version, **options).state == "waiting"

    def test_options_that_stay_the_same_change_nothing(self, version, ada):
        versions.set_options(ada, version, header=True)
        inspected(version)
        assert versions.set_options(ada, version, header=True, label=None).state == "ready"

    def test_wrong_options_are_named_all_at_once(self, version, ada):
        with pytest.raises(InvalidFields) as refused:
            versions.set_options(ada, version, encoding="klingon", delimiter="ab", colour="red", header="perhaps")
        assert {error.field for error in refused.value.errors} == {"encoding", "delimiter", "colour", "header"}

    def test_only_listed_moves_happen(self, version):
        for old in VersionState:
            for new in VersionState:
                Version.objects.update(state=old)
                version.refresh_from_db()
                if new in MOVES[old]:
                    versions._move(version, new)
                else:
                    with pytest.raises(Conflict):
                        versions._move(version, new)


class TestDatasets:
    def test_strangers_see_nothing_and_members_may_not_change(self, ada, make_user):
        team = Team.objects.create(name="Vision")
        bob, eve, boss = make_user("bob"), make_user("eve"), make_user("boss")
        for user, role in ((ada, "member"), (bob, "member"), (boss, "manager")):
            Membership.objects.create(user=user, team=team, role=role)
        dataset = create_dataset(ada, name="  Shared ", team=team)
        assert dataset.name == "Shared"
        with pytest.raises(Forbidden):
            change_dataset(bob, dataset, name="Mine")
        with pytest.raises(NotFound):
            change_dataset(eve, dataset, name="Mine")
        with pytest.raises(Invalid, match="member"):
            create_dataset(eve, name="x", team=team)
        assert change_dataset(boss, dataset, name="Ours").name == "Ours"

    @pytest.mark.parametrize("name", ["", "   ", "x" * 201, "a\x00b"])
    def test_impossible_names(self, ada, name):
        with pytest.raises(Invalid):
            create_dataset(ada, name=name)

    def test_deleting_frees_the_room(self, version, ada):
        assert storage_use.used_bytes(ada) == 4
        delete_dataset(ada, version.dataset)
        assert storage_use.used_bytes(ada) == 0

    def test_a_dataset_in_use_by_a_job_stays(self, version, ada):
        from jobs.models import Job

        Job.objects.create(owner=ada, name="My training", spec={}, version=version, queued_at=timezone.now())
        with pytest.raises(Conflict, match="My training"):
            delete_dataset(ada, version.dataset)
        assert Dataset.objects.exists()


class TestUploads:
    def test_quota_counts_reservations_of_person_and_team(self, ada, places, make_user):
        team = Team.objects.create(name="Vision")
        bob = make_user("bob")
        for user in (ada, bob):
            Membership.objects.create(user=user, team=team)
        set_quota(None, team, max_storage_bytes=100)
        first, _token = uploads.create_upload(ada, file_name="a", size_bytes=60, team_id=team.pk)
        with pytest.raises(StorageFull, match="Vision"):
            uploads.create_upload(bob, file_name="b", size_bytes=60, team_id=team.pk)
        uploads.abandon(first)
        uploads.create_upload(bob, file_name="b", size_bytes=60, team_id=team.pk)
        assert (storage_use.used_bytes(ada), storage_use.used_bytes(bob), storage_use.used_bytes(team)) == (0, 60, 60)

    def test_quota_lowered_meanwhile_ends_the_upload_with_a_sentence(self, ada, places):
        upload, _token = uploads.create_upload(ada, file_name="a.csv", size_bytes=3)
        fill(upload, b"abc")
        set_quota(None, ada, max_storage_bytes=2)
        with pytest.raises(StorageFull):
            finish.finish_upload(upload.pk)
        upload.refresh_from_db()
        assert upload.state == "failed"
        assert "2 B" in upload.problem
        assert storage_use.used_bytes(ada) == 0

    def test_finishing_twice_makes_one_version(self, ada, places):
        upload, _token = uploads.create_upload(ada, file_name="a.csv", size_bytes=3)
        fill(upload, b"abc")
        assert finish.finish_upload(upload.pk).state == "done"
        assert finish.finish_upload(upload.pk).state == "done"
        assert Version.objects.count() == 1

    def test_lost_bytes_are_said(self, ada, places):
        upload, _token = uploads.create_upload(ada, file_name="a.csv", size_bytes=3)
        fill(upload, b"abc")
        uploads.staging().remove(upload.pk)
        with pytest.raises(Invalid, match="again"):
            finish.finish_upload(upload.pk)

    def test_another_host_leaves_a_pinned_upload_alone(self, ada, places, settings):
        settings.STAGING_IS_SHARED = False
        upload, _token = uploads.create_upload(ada, file_name="a.csv", size_bytes=3)
        fill(upload, b"abc")
        Upload.objects.update(host="other.example")
        uploads.staging().remove(upload.pk)  # this host never had the file
        assert finish.finish_upload(upload.pk).state == "finishing"
        upload.refresh_from_db()
        with pytest.raises(Conflict, match=r"other\.example"):
            uploads.require_open(upload)

    def test_waiting_ones_are_finished_later(self, ada, places):
        upload, _token = uploads.create_upload(ada, file_name="a.csv", size_bytes=3)
        fill(upload, b"abc")
        assert finish.finish_waiting() == 0  # it moved a moment ago: its own request is at it
        assert finish.finish_waiting(idle_seconds=0) == 1

    def test_code_is_handed_over_once(self, ada, places, make_user):
        upload, _token = uploads.create_upload(ada, file_name="job.zip", size_bytes=3, purpose="code")
        with pytest.raises(Conflict):
            uploads.take_stored(ada, upload.pk, purpose="code")
        fill(upload, b"zip")
        finish.finish_upload(upload.pk)
        assert storage_use.used_bytes(ada) == 3
        with pytest.raises(NotFound):
            uploads.take_stored(make_user("eve"), upload.pk, purpose="code")
        stored, name = uploads.take_stored(ada, upload.pk, purpose="code")
        assert (stored.size_bytes, name, Upload.objects.count(), Dataset.objects.count()) == (3, "job.zip", 0, 0)

    def test_sweep_spares_what_moves(self, ada, places):
        still, _token = uploads.create_upload(ada, file_name="still", size_bytes=3)
        moving, _token = uploads.create_upload(ada, file_name="moving", size_bytes=3)
        Upload.objects.filter(pk=still.pk).update(moved_at=timezone.now() - timedelta(days=3))
        assert uploads.sweep_uploads() == 1
        assert uploads.staging().size(still.pk) is None
        assert uploads.staging().size(moving.pk) == 0
        still.refresh_from_db()
        assert (still.state, storage_use.used_bytes(ada)) == ("abandoned", 3)

    def test_foreign_dataset_cannot_be_added_to(self, version, make_user):
        with pytest.raises(NotFound):
            uploads.create_upload(make_user("eve"), file_name="x", size_bytes=1, dataset_id=version.dataset_id)

    def test_full_disk_is_said_at_creation(self, ada, places):
        with pytest.raises(StorageFull, match="room"):
            uploads.create_upload(ada, file_name="x", size_bytes=1 << 49)

    @pytest.mark.django_db(transaction=True)
    def test_racing_creations_never_pass_the_limit(self, ada, places):
        set_quota(None, ada, max_storage_bytes=100)
        refused = []

        def create():
            try:
                uploads.create_upload(ada, file_name="x", size_bytes=30)
            except StorageFull as error:
                refused.append(error)
            finally:
                connections.close_all()

        run_all([create] * 8)
        assert (storage_use.used_bytes(ada), len(refused)) == (90, 5)

    def test_names_lose_their_path_and_keep_their_script(self):
        assert uploads.clean_file_name("C:\\x\\数据.csv") == "数据.csv"
        assert uploads.clean_file_name("e\u0301.csv") == "é.csv"
        for wrong in ("", "..", "a\nb", "x" * 256):
            with pytest.raises(Invalid):
                uploads.clean_file_name(wrong)


def fill(upload, body):
    with uploads.staging().lock(upload.pk) as file:
        file.append(body)
    assert uploads.note_end(upload, uploads.take_over(upload), len(body))


def run_all(functions):
    assert not connection.in_atomic_block
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_changes_of_datasets_leave_audit_rows_with_who_did_it(ada):
    from auditlog.models import LogEntry

    dataset = create_dataset(ada, name="Digits")
    change_dataset(ada, dataset, name="Numbers")
    delete_dataset(ada, dataset)
    rows = LogEntry.objects.filter(content_type__model="dataset").order_by("pk")
    assert [(row.action, row.actor) for row in rows] == [(0, ada), (1, ada), (2, ada)]
