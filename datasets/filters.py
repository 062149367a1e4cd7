"""What lists of datasets, versions and uploads can be narrowed by."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from datasets.models import Dataset, Upload, Version
from datasets.states import UploadState, VersionState


class DatasetFilter(filters.FilterSet):
    name = filters.CharFilter(lookup_expr="icontains", label=_("Part of the name"))
    owner = filters.CharFilter(field_name="owner__username", label=_("User name of the owner"))
    team = filters.NumberFilter(method="by_team", label=_("Id of the team"), min_value=1, max_value=2**63 - 1)

    class Meta:
        model = Dataset
        fields = ("name", "owner", "team")

    def by_team(self, rows: QuerySet[Dataset], _name: str, value: Any) -> QuerySet[Dataset]:
        return rows.filter(team_id=int(value))


class VersionFilter(filters.FilterSet):
    dataset = filters.NumberFilter(method="by_dataset", label=_("Id of the dataset"), min_value=1, max_value=2**63 - 1)
    state = filters.ChoiceFilter(choices=[(s.value, s.value) for s in VersionState], label=_("State"))

    class Meta:
        model = Version
        fields = ("dataset", "state")

    def by_dataset(self, rows: QuerySet[Version], _name: str, value: Any) -> QuerySet[Version]:
        return rows.filter(dataset_id=int(value))


class UploadFilter(filters.FilterSet):
    state = filters.ChoiceFilter(choices=[(s.value, s.value) for s in UploadState], label=_("State"))
    purpose = filters.ChoiceFilter(choices=[("dataset", "dataset"), ("code", "code")], label=_("Purpose"))

    class Meta:
        model = Upload
        fields = ("state", "purpose")
