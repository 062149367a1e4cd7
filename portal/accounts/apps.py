from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    name = "portal.accounts"
    label = "accounts"
    verbose_name = _("People and teams")

    def ready(self) -> None:
        from portal import audit

        audit.connect()
