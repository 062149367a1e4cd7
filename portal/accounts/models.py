"""Who may do what, and how much: users, teams, quotas, API tokens."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _
from knox.models import AbstractAuthToken


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox keeps its manager to itself
    """A person. Superusers see everything; staff see everything and use the admin as far as permissions allow."""

    teams: models.ManyToManyField[Team, Membership] = models.ManyToManyField(
        "Team", through="Membership", related_name="members", verbose_name=_("teams")
    )

    class Meta(AbstractUser.Meta):
        verbose_name = _("user")  # type: ignore[assignment]  # the base's Meta is typed as plain text
        verbose_name_plural = _("users")  # type: ignore[assignment]


class Team(models.Model):
    name = models.CharField(_("name"), max_length=100, unique=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("team")
        verbose_name_plural = _("teams")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """Members see what belongs to the team; managers may also change and cancel it."""

    class Role(models.TextChoices):
        MEMBER = "member", _("Member")
        MANAGER = "manager", _("Manager")

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships", verbose_name=_("user"))
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships", verbose_name=_("team"))
    role = models.CharField(_("role"), max_length=10, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} – {self.team}"


class Quota(models.Model):
    """Ceilings of one user or one team; empty means unlimited. Both a job's owner and its team must have room."""

    user = models.OneToOneField(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="quota", verbose_name=_("user")
    )
    team = models.OneToOneField(
        Team, null=True, blank=True, on_delete=models.CASCADE, related_name="quota", verbose_name=_("team")
    )
    max_devices = models.PositiveIntegerField(_("devices in use at once"), null=True, blank=True)
    max_running_jobs = models.PositiveIntegerField(_("running jobs"), null=True, blank=True)
    max_queued_jobs = models.PositiveIntegerField(_("queued jobs"), null=True, blank=True)
    max_storage_bytes = models.PositiveBigIntegerField(_("storage bytes"), null=True, blank=True)
    max_job_seconds = models.PositiveIntegerField(
        _("longest job, seconds"), null=True, blank=True, validators=[MinValueValidator(60)]
    )

    class Meta:
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=True) ^ models.Q(team__isnull=True), name="quota_of_user_or_team"
            )
        ]

    def __str__(self) -> str:
        return str(self.user or self.team)


class ApiToken(AbstractAuthToken):
    """A hashed API token; the text is shown once. Read tokens refuse every method that writes."""

    class Scope(models.TextChoices):
        READ = "read", _("Read only")
        WRITE = "write", _("Read and write")

    name = models.CharField(_("name"), max_length=100, blank=True)
    scope = models.CharField(_("scope"), max_length=5, choices=Scope.choices, default=Scope.WRITE)
    last_used_at = models.DateTimeField(_("last used at"), null=True, blank=True)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
