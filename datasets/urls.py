from django.urls import path

from datasets import views

urlpatterns = [
    path("datasets/", views.dataset_list, name="dataset-list"),
    path("datasets/uploads/", views.uploads, name="dataset-uploads"),
    path("datasets/uploads/<uuid:pk>/forget/", views.forget_upload, name="dataset-upload-forget"),
    path("datasets/<int:pk>/", views.dataset_page, name="dataset"),
    path("datasets/<int:pk>/change/", views.change, name="dataset-change"),
    path("datasets/<int:pk>/delete/", views.delete, name="dataset-delete"),
    path("datasets/<int:pk>/versions/<int:number>/options/", views.options, name="dataset-options"),
    path("datasets/<int:pk>/versions/<int:number>/inspect/", views.inspect, name="dataset-inspect"),
]
