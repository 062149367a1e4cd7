from django.urls import path

from portal.accounts.api import MeViewSet, TokenViewSet
from portal.rest import router

tokens = router()
tokens.register("tokens", TokenViewSet, basename="api-token")
urlpatterns = [path("me/", MeViewSet.as_view({"get": "show"}), name="api-me"), *tokens.urls]
