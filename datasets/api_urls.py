from django.urls import path

from datasets import api
from portal.rest import router

_router = router()
_router.register("datasets", api.DatasetViewSet, basename="api-dataset")
_router.register("versions", api.VersionViewSet, basename="api-version")
_router.register("uploads", api.UploadViewSet, basename="api-upload")

urlpatterns = [*_router.urls, path("storage-use/", api.StorageUseView.as_view(), name="api-storage-use")]
