"""The caller and their API tokens, as the REST API shows them."""

from __future__ import annotations

from rest_framework import serializers

from portal.accounts.models import ApiToken, Membership, User
from portal.rest import StrictSerializer


class MembershipSerializer(serializers.ModelSerializer[Membership]):
    name = serializers.CharField(source="team.name", read_only=True)

    class Meta:
        model = Membership
        fields = ("team", "name", "role")
        read_only_fields = fields


class MeSerializer(serializers.ModelSerializer[User]):
    email = serializers.CharField(read_only=True, help_text="May be empty.")
    teams = MembershipSerializer(source="memberships", many=True, read_only=True)

    class Meta:
        model = User
        fields = ("id", "username", "email", "is_staff", "is_superuser", "teams")
        read_only_fields = fields


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    key = serializers.CharField(source="token_key", help_text="How it is named: the first characters of its text.")
    created_at = serializers.DateTimeField(source="created")
    expires_at = serializers.DateTimeField(source="expiry", allow_null=True)

    class Meta:
        model = ApiToken
        fields = ("key", "name", "scope", "created_at", "expires_at", "last_used_at")
        read_only_fields = fields


class NewTokenSerializer(StrictSerializer):
    name = serializers.CharField(max_length=100)
    scope = serializers.ChoiceField(choices=ApiToken.Scope.choices, default=ApiToken.Scope.WRITE)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class MadeTokenSerializer(TokenSerializer):
    """The only answer that ever holds the token's text."""

    token = serializers.CharField(read_only=True, help_text="Shown once: `Authorization: Token <token>`.")

    class Meta:
        model = ApiToken
        fields = (*TokenSerializer.Meta.fields, "token")
        read_only_fields = fields
