"""REST: who I am, and my API tokens."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import ApiToken, User
from portal.accounts.serializers import MadeTokenSerializer, MeSerializer, NewTokenSerializer, TokenSerializer
from portal.accounts.services import create_token, revoke_token
from portal.rest import RestViewSet


class MeViewSet(RestViewSet):
    serializer_class = MeSerializer

    @extend_schema(summary="Whose token this is", responses=MeSerializer)
    def show(self, request: Request) -> Response:
        me = User.objects.prefetch_related("memberships__team").get(pk=self.person.pk)
        return Response(MeSerializer(me).data)


@extend_schema_view(list=extend_schema(summary="Your API tokens, without their texts"))
class TokenViewSet(ListModelMixin, RestViewSet):
    serializer_class = TokenSerializer
    lookup_field = "key"
    lookup_value_regex = r"[0-9A-Za-z]{1,64}"
    ordering = ("-created", "-pk")
    queryset = ApiToken.objects.none()

    def get_queryset(self) -> QuerySet[ApiToken]:
        return ApiToken.objects.filter(user_id=self.request.user.pk)

    @extend_schema(summary="Make a token", request=NewTokenSerializer, responses={201: MadeTokenSerializer})
    def create(self, request: Request) -> Response:
        wish = NewTokenSerializer(data=request.data)
        wish.is_valid(raise_exception=True)
        made, text = create_token(self.person, **wish.validated_data)
        made.token = text
        return Response(MadeTokenSerializer(made).data, status=201, headers={"Cache-Control": "no-store"})

    @extend_schema(summary="Revoke a token", responses={204: None})
    def destroy(self, request: Request, key: str) -> Response:
        revoke_token(self.person, key)
        return Response(status=204)
