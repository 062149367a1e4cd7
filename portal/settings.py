"""Settings. Every value that a site may change comes from the environment through `portal.env`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from portal import env
from portal.csp import STRICT
from portal.logs import logging_config
from portal.secret_file import read_or_make

BASE_DIR = env.ROOT
VAR_DIR = env.folder("TRAINYARD_VAR", BASE_DIR / "var")
DEBUG = env.flag("DEBUG", default=False)


def _secret_key() -> str:
    """SECRET_KEY, else one made once and kept in VAR_DIR with mode 0600 (a first look needs no configuration)."""
    given = env.text("SECRET_KEY", "")
    if given:
        if len(given) < 32:
            raise ImproperlyConfigured("SECRET_KEY is shorter than 32 characters.")
        return given
    return read_or_make(VAR_DIR / "secret_key")


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
PUBLIC_URL = env.origin("PUBLIC_URL")  # how people and nodes reach the portal; '' takes it from the request
if PUBLIC_URL:
    ALLOWED_HOSTS.append(str(urlsplit(PUBLIC_URL).hostname))
    CSRF_TRUSTED_ORIGINS.append(PUBLIC_URL)

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_vite",
    "rest_framework",
    "knox",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "drf_standardized_errors",
    "channels",
    "auditlog",
    "portal.accounts",
    "portal",
    "datasets",
    "nodes",
    "jobs",
]
MIDDLEWARE = [
    "portal.logs.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "portal.csp.PolicyMiddleware",
    "auditlog.middleware.AuditlogMiddleware",
    "portal.refusals.RefusalMiddleware",
]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "frontend" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
            ]
        },
    }
]

# --- database: SQLite in VAR_DIR, or DATABASE_URL -----------------------------------------------------------------

_sqlite_options = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000;",
}
DATABASES: dict[str, dict[str, Any]] = {"default": env.database("DATABASE_URL", VAR_DIR / "db.sqlite3")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = _sqlite_options
else:
    DATABASES["default"]["OPTIONS"] = {
        "pool": {"min_size": 0, "max_size": int(env.number("DATABASE_POOL", 48, least=1, most=200)), "timeout": 20},
        "options": "-c idle_in_transaction_session_timeout=15000",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- the border to browsers ---------------------------------------------------------------------------------------

_is_https = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _is_https
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if _is_https else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if env.flag("TRUST_PROXY_HEADERS", default=False):  # only behind a proxy that sets them itself
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CONTENT_SECURITY_POLICY = {"DIRECTIVES": STRICT}
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 2**20  # files come by tus; the largest body is a node's exchange
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2_000
DATA_UPLOAD_MAX_NUMBER_FILES = 4
FILE_UPLOAD_MAX_MEMORY_SIZE = 2 * 2**20
CSRF_FAILURE_VIEW = "portal.refusals.csrf_failure"

# --- logs ---------------------------------------------------------------------------------------------------------

LOGGING = logging_config(
    style=env.choice("LOG_FORMAT", "console" if sys.stderr.isatty() else "json", ("json", "console")),
    level=env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR")),
)

# --- people -------------------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"
KNOX_TOKEN_MODEL = "accounts.ApiToken"  # noqa: S105 - a model, no secret
REST_KNOX = {"TOKEN_TTL": None, "AUTO_REFRESH": False}
MIGRATION_MODULES = {"knox": None}  # ApiToken stands in for knox's own table, which PostgreSQL would refuse to flush

# --- language, time, files ----------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "frontend" / "locale"]
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = env.folder("STATIC_ROOT", VAR_DIR / "static")
STATICFILES_DIRS: list[Path] = [BASE_DIR / "frontend" / "dist"] if (BASE_DIR / "frontend" / "dist").is_dir() else []
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True  # a first look serves the build as it lies there, without collectstatic
DJANGO_VITE = {"default": {"dev_mode": False, "manifest_path": BASE_DIR / "frontend" / "dist" / "manifest.json"}}
STORAGE_URL = env.text("STORAGE_URL", f"file://{VAR_DIR / 'storage'}")
STAGING_DIR = env.folder("STAGING_DIR", VAR_DIR / "staging")
STAGING_IS_SHARED = env.flag("STAGING_IS_SHARED", default=True)
UPLOAD_EXPIRY_SECONDS = env.number("UPLOAD_EXPIRY_SECONDS", 172_800, least=60, most=31_536_000)  # without a byte

# --- broker, live channel -----------------------------------------------------------------------------------------

CHANNEL_PREFIX = "trainyard"
REDIS_URL = env.redis_url("REDIS_URL", VAR_DIR / "broker" / "url")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}], "prefix": CHANNEL_PREFIX},
    }
}
NODE_BROKER_URL = env.text("NODE_BROKER_URL", "")  # how nodes reach the broker; '' is REDIS_URL's host and port

# --- the master and nodes -----------------------------------------------------------------------------------------

NODE_LOST_SECONDS = env.number("NODE_LOST_SECONDS", 45, least=2, most=3600)
LEASE_SECONDS = env.number("LEASE_SECONDS", 900, least=4, most=86_400)
MASTER_TICK_SECONDS = env.number("MASTER_TICK_SECONDS", 1.0, least=0.05, most=60)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.rest_auth.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "portal.rest_schema.AutoSchema",
    "EXCEPTION_HANDLER": "drf_standardized_errors.handler.exception_handler",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["jobs.parsers.JsonParser"],
}
DRF_STANDARDIZED_ERRORS = {
    "EXCEPTION_HANDLER_CLASS": "portal.rest.ExceptionHandler",
    "EXCEPTION_FORMATTER_CLASS": "portal.rest.ExceptionFormatter",
    "ENABLE_IN_DEBUG_FOR_UNHANDLED_EXCEPTIONS": True,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Trainyard",
    "DESCRIPTION": _("Datasets, jobs, nodes and quotas. Times are ISO 8601 with offset, sizes in bytes."),
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_NO_READ_ONLY_REQUIRED": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": None,
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "persistAuthorization": False},
    "ENUM_NAME_OVERRIDES": {
        "JobState": "portal.api_enums.JOB_STATE",
        "AttemptState": "portal.api_enums.ATTEMPT_STATE",
        "PlacementState": "portal.api_enums.PLACEMENT_STATE",
        "StopReason": "portal.api_enums.STOP_REASON",
        "NodeState": "portal.api_enums.NODE_STATE",
        "Admission": "portal.api_enums.ADMISSION",
        "VersionState": "portal.api_enums.VERSION_STATE",
        "UploadState": "portal.api_enums.UPLOAD_STATE",
        "JobPurpose": "jobs.models.Job.Purpose",
    },
}

# --- the admin's skin: this portal's name, icon and blue ------------------------------------------------------------

UNFOLD = {
    "SITE_TITLE": "Trainyard",
    "SITE_HEADER": "Trainyard",
    "SITE_SYMBOL": "monitoring",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "portal.admin_base.icon_url"}],
    "COLORS": {
        "primary": {
            "50": "239 246 255", "100": "219 234 254", "200": "191 219 254", "300": "147 197 253",
            "400": "96 165 250", "500": "59 130 246", "600": "26 102 214", "700": "29 78 216",
            "800": "30 64 175", "900": "30 58 138", "950": "23 37 84",
        },
    },
}  # fmt: skip

# --- audit: whose saves leave a row; changes made by compare-and-set are recorded by portal.audit -----------------

AUDITLOG_INCLUDE_TRACKING_MODELS = (
    {
        "model": "accounts.User",
        "exclude_fields": ["last_login"],
        "mask_fields": ["password"],
        "mask_callable": "portal.audit.mask",
        "m2m_fields": ["groups", "user_permissions"],
    },
    {"model": "auth.Group", "m2m_fields": ["permissions"]},
    "accounts.Team",
    "accounts.Membership",
    "accounts.Quota",
    {"model": "accounts.ApiToken", "include_fields": ["name", "scope", "expiry", "user", "token_key"]},
    {"model": "nodes.Node", "include_fields": ["name"]},
    {"model": "nodes.JoinCode", "include_fields": ["node_name", "created_by", "expires_at"]},
    {"model": "datasets.Dataset", "include_fields": ["name", "description", "owner", "team"]},
)
