from django.urls import path

from jobs import form_views, views

urlpatterns = [
    path("jobs/", views.job_list, name="job-list"),
    path("jobs/new/", form_views.new_job, name="job-new"),
    path("jobs/check/", form_views.check, name="job-check"),
    path("jobs/columns/<int:pk>/", form_views.columns, name="job-columns"),
    path("jobs/bundles/", form_views.add_bundle, name="job-bundle"),
    path("jobs/<int:pk>/", views.job_page, name="job"),
    path("jobs/<int:pk>/moving/", views.job_moving, name="job-moving"),
    path("jobs/<int:pk>/cancel/", views.cancel, name="job-cancel"),
]
