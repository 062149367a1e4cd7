"""How lists of jobs may be narrowed; the HTML list and the REST API use the same names."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import django_filters as filters
from django import forms
from django.utils.translation import gettext_lazy as _
from django_filters.fields import IsoDateTimeField

from jobs.models import Job, JobQuerySet
from jobs.states import JobState


class MomentField(IsoDateTimeField):
    """Refuses the edges of the calendar that their time zone moves beyond what a database holds."""

    def to_python(self, value: Any) -> Any:
        moment = super().to_python(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class MomentFilter(filters.IsoDateTimeFilter):
    field_class = MomentField


class JobFilter(filters.FilterSet):
    state = filters.MultipleChoiceFilter(choices=[(state.value, state.value) for state in JobState], label=_("state"))
    owner = filters.CharFilter(field_name="owner__username", label=_("user name of the owner"))
    team = filters.NumberFilter(field_name="team_id", min_value=1, max_value=2**53, label=_("id of the team"))
    name = filters.CharFilter(lookup_expr="icontains", label=_("text in the name"))
    purpose = filters.ChoiceFilter(choices=Job.Purpose.choices, method="keep", label=_("purpose"))
    created_from = MomentFilter(field_name="created_at", lookup_expr="gte", label=_("submitted from"))
    created_before = MomentFilter(field_name="created_at", lookup_expr="lt", label=_("submitted before"))

    class Meta:
        model = Job
        fields = ("state", "owner", "team", "name", "purpose", "created_from", "created_before")

    def keep(self, rows: JobQuerySet, name: str, value: str) -> JobQuerySet:
        return rows.filter(purpose=value)

    def filter_queryset(self, queryset: JobQuerySet) -> JobQuerySet:
        """The portal's own work shows only when asked for."""
        rows: JobQuerySet = super().filter_queryset(queryset)
        return rows if self.form.cleaned_data.get("purpose") else rows.of_people()
