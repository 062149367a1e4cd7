"""Forms of the sign-in and account pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import ApiToken

_CONTROL = {"class": "form-control"}


class SignInForm(AuthenticationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.update(_CONTROL)


class PasswordForm(PasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.update(_CONTROL)
            field.widget.attrs.pop("autofocus", None)
            field.help_text = ""


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("What is it for"),
        max_length=100,
        widget=forms.TextInput(attrs={**_CONTROL, "placeholder": _("notebook on my laptop")}),
    )
    scope = forms.ChoiceField(
        label=_("May"), choices=ApiToken.Scope.choices, widget=forms.Select(attrs={"class": "form-select"})
    )
    days = forms.TypedChoiceField(
        label=_("Valid for"),
        choices=[(30, _("30 days")), (90, _("90 days")), (365, _("a year")), (0, _("until revoked"))],
        coerce=int,
        initial=90,
        widget=forms.Select(attrs={"class": "form-select"}),
    )

    def expires_at(self) -> Any:
        days = self.cleaned_data["days"]
        return timezone.now() + timedelta(days=days) if days else None
