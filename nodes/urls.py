from django.urls import path

from nodes import views

urlpatterns = [path("cluster/nodes/<uuid:pk>/admission/", views.admission, name="node-admission")]
