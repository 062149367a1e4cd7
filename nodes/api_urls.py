from nodes.api import NodeViewSet
from portal.rest import router

_router = router()
_router.register("nodes", NodeViewSet, basename="api-node")
urlpatterns = _router.urls
