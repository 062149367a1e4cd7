from django.urls import path

from portal.accounts import views

urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("account/", views.account, name="account"),
    path("account/password/", views.change_password, name="change-password"),
    path("account/tokens/", views.add_token, name="add-token"),
    path("account/tokens/<str:key>/revoke/", views.drop_token, name="drop-token"),
]
