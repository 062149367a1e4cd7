"""Sign-in and the account page: password, API tokens (shown once), language and theme."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from portal.accounts.forms import PasswordForm, SignInForm, TokenForm
from portal.accounts.http import SignedInRequest
from portal.accounts.models import ApiToken
from portal.accounts.services import create_token, revoke_token

sign_in = LoginView.as_view(
    template_name="accounts/sign_in.html", authentication_form=SignInForm, redirect_authenticated_user=True
)
sign_out = LogoutView.as_view()


@login_required
def account(request: SignedInRequest) -> HttpResponse:
    return _page(request)


@login_required
@require_POST
def add_token(request: SignedInRequest) -> HttpResponse:
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, token_form=form)
    data = form.cleaned_data
    _token, text = create_token(request.user, name=data["name"], scope=data["scope"], expires_at=form.expires_at())
    response = _page(request, new_token=text)
    response["Cache-Control"] = "no-store"
    return response


@login_required
@require_POST
def drop_token(request: SignedInRequest, key: str) -> HttpResponse:
    revoke_token(request.user, key)
    messages.success(request, _("The token is revoked."))
    return redirect("account")


@sensitive_post_parameters()
@login_required
@require_POST
def change_password(request: SignedInRequest) -> HttpResponse:
    form = PasswordForm(request.user, request.POST)
    if not form.is_valid():
        return _page(request, password_form=form)
    form.save()
    update_session_auth_hash(request, form.user)
    messages.success(request, _("Your password is changed. Other sessions of yours are signed out."))
    return redirect("account")


def _page(
    request: SignedInRequest,
    *,
    token_form: TokenForm | None = None,
    password_form: PasswordForm | None = None,
    new_token: str = "",
) -> HttpResponse:
    wrong = bool(token_form or password_form)
    context = {
        "tokens": ApiToken.objects.filter(user=request.user).order_by("-created"),
        "token_form": token_form or TokenForm(),
        "password_form": password_form or PasswordForm(request.user),
        "new_token": new_token,
        "memberships": request.user.memberships.select_related("team").order_by("team__name"),
    }
    return render(request, "accounts/account.html", context, status=400 if wrong else 200)
