"""Who gets what answer where. Every address and every method of it stands here; a new one without a row fails.

Roles: anonymous · owner of the thing · member of its team · manager of its team · stranger · a read-only token of the
owner's · a node's token · staff (without any right of the admin) · superuser. Bodies are empty, so 400 means 'you may,
but this makes no sense'. Pages go by session: a token is nobody there (302 to sign-in). 404 is what a stranger sees of
a foreign thing, also where a member's answer is 403 (you may look, not touch).
"""

from __future__ import annotations

ROLES = ("anonymous", "owner", "member", "manager", "stranger", "reader", "node", "staff", "superuser")

PAGES = """
#                                                     method  anon own mem man str read node stf sup
(home)                                                GET     302 200 200 200 200 302 302 200 200
(home)                                                POST    302 200 200 200 200 302 302 200 200
account/                                              GET     302 200 200 200 200 302 302 200 200
account/                                              POST    302 200 200 200 200 302 302 200 200
account/password/                                     GET     302 405 405 405 405 302 302 405 405
account/password/                                     POST    302 400 400 400 400 302 302 400 400
account/tokens/                                       GET     302 405 405 405 405 302 302 405 405
account/tokens/                                       POST    302 400 400 400 400 302 302 400 400
account/tokens/<key>/revoke/                          GET     302 405 405 405 405 302 302 405 405
account/tokens/<key>/revoke/                          POST    302 302 404 404 404 302 302 404 404
cluster/                                              GET     302 200 200 200 200 302 302 200 200
cluster/                                              POST    302 200 200 200 200 302 302 200 200
cluster/nodes/<pk>/                                   GET     302 200 200 200 200 302 302 200 200
cluster/nodes/<pk>/                                   POST    302 200 200 200 200 302 302 200 200
cluster/nodes/<pk>/admission/                         GET     302 405 405 405 405 302 302 405 405
cluster/nodes/<pk>/admission/                         POST    302 400 400 400 400 302 302 400 400
datasets/                                             GET     302 200 200 200 200 302 302 200 200
datasets/                                             POST    302 200 200 200 200 302 302 200 200
datasets/<pk>/                                        GET     302 200 200 200 404 302 302 200 200
datasets/<pk>/                                        POST    302 200 200 200 404 302 302 200 200
datasets/<pk>/change/                                 GET     302 405 405 405 405 302 302 405 405
datasets/<pk>/change/                                 POST    302 302 302 302 404 302 302 302 302
datasets/<pk>/delete/                                 GET     302 405 405 405 405 302 302 405 405
datasets/<pk>/delete/                                 POST    302 302 302 302 404 302 302 302 302
datasets/<pk>/versions/<number>/inspect/              GET     302 405 405 405 405 302 302 405 405
datasets/<pk>/versions/<number>/inspect/              POST    302 302 403 302 404 302 302 302 302
datasets/<pk>/versions/<number>/options/              GET     302 405 405 405 405 302 302 405 405
datasets/<pk>/versions/<number>/options/              POST    302 302 403 302 404 302 302 302 302
datasets/uploads/                                     GET     302 200 200 200 200 302 302 200 200
datasets/uploads/                                     POST    302 200 200 200 200 302 302 200 200
datasets/uploads/<pk>/forget/                         GET     302 405 405 405 405 302 302 405 405
datasets/uploads/<pk>/forget/                         POST    302 302 404 404 404 302 302 404 404
healthz                                               GET     200 200 200 200 200 200 200 200 200
healthz                                               POST    405 405 405 405 405 405 405 405 405
jobs/                                                 GET     302 200 200 200 200 302 302 200 200
jobs/                                                 POST    302 200 200 200 200 302 302 200 200
jobs/<pk>/                                            GET     302 200 200 200 404 302 302 200 200
jobs/<pk>/                                            POST    302 200 200 200 404 302 302 200 200
jobs/<pk>/cancel/                                     GET     302 405 405 405 405 302 302 405 405
jobs/<pk>/cancel/                                     POST    302 302 403 302 404 302 302 302 302
jobs/<pk>/moving/                                     GET     302 200 200 200 404 302 302 200 200
jobs/<pk>/moving/                                     POST    302 200 200 200 404 302 302 200 200
jobs/bundles/                                         GET     302 405 405 405 405 302 302 405 405
jobs/bundles/                                         POST    302 404 404 404 404 302 302 404 404
jobs/check/                                           GET     302 405 405 405 405 302 302 405 405
jobs/check/                                           POST    302 200 200 200 200 302 302 200 200
jobs/columns/<pk>/                                    GET     302 200 200 200 200 302 302 200 200
jobs/columns/<pk>/                                    POST    302 405 405 405 405 302 302 405 405
jobs/new/                                             GET     302 200 200 200 200 302 302 200 200
jobs/new/                                             POST    302 400 400 400 400 302 302 400 400
language/                                             GET     302 302 302 302 302 302 302 302 302
language/                                             POST    302 302 302 302 302 302 302 302 302
readyz                                                GET     503 503 503 503 503 503 503 503 503
readyz                                                POST    405 405 405 405 405 405 405 405 405
sign-in/                                              GET     200 302 302 302 302 200 200 302 302
sign-in/                                              POST    200 302 302 302 302 200 200 302 302
sign-in/                                              PUT     200 302 302 302 302 200 200 302 302
sign-out/                                             POST    302 302 302 302 302 302 302 302 302
texts.json                                            GET     200 200 200 200 200 200 200 200 200
usage/                                                GET     302 200 200 200 200 302 302 200 200
usage/                                                POST    302 200 200 200 200 302 302 200 200
"""

REST = """
#                                                     method  anon own mem man str read node stf sup
api/<rest>                                            GET     404 404 404 404 404 404 404 404 404
api/<rest>                                            POST    404 404 404 404 404 404 404 404 404
api/docs/                                             GET     200 200 200 200 200 200 200 200 200
api/schema/                                           GET     200 200 200 200 200 200 200 200 200
api/v1/bundles/                                       GET     401 200 200 200 200 200 401 200 200
api/v1/bundles/                                       POST    401 400 400 400 400 403 401 400 400
api/v1/datasets/                                      GET     401 200 200 200 200 200 401 200 200
api/v1/datasets/                                      POST    401 400 400 400 400 403 401 400 400
api/v1/datasets/<pk>/                                 DELETE  401 204 403 204 404 403 401 204 204
api/v1/datasets/<pk>/                                 GET     401 200 200 200 404 200 401 200 200
api/v1/datasets/<pk>/                                 PATCH   401 200 403 200 404 403 401 200 200
api/v1/jobs/                                          GET     401 200 200 200 200 200 401 200 200
api/v1/jobs/                                          POST    401 400 400 400 400 403 401 400 400
api/v1/jobs/<pk>/                                     GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/attempts/                            GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/cancel/                              POST    401 200 403 200 404 403 401 200 200
api/v1/jobs/<pk>/checkpoints/                         GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/checkpoints/<checkpoint>/download/   GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/checkpoints/<checkpoint>/links/      GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/events/                              GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/logs/                                GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/logs/<rank>/                         GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/logs/<rank>/download/                GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/logs/<rank>/search/                  GET     401 400 400 400 404 400 401 400 400
api/v1/jobs/<pk>/rerun/                               GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/series.csv                           GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/series/                              GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/<pk>/usage/                               GET     401 200 200 200 404 200 401 200 200
api/v1/jobs/check/                                    POST    401 200 200 200 200 403 401 200 200
api/v1/me/                                            GET     401 200 200 200 200 200 401 200 200
api/v1/nodes/                                         GET     401 200 200 200 200 200 401 200 200
api/v1/nodes/<pk>/                                    GET     401 200 200 200 200 200 401 200 200
api/v1/nodes/<pk>/cordon/                             POST    401 403 403 403 403 403 401 200 200
api/v1/nodes/<pk>/drain/                              POST    401 403 403 403 403 403 401 200 200
api/v1/nodes/<pk>/events/                             GET     401 200 200 200 200 200 401 200 200
api/v1/nodes/<pk>/uncordon/                           POST    401 403 403 403 403 403 401 200 200
api/v1/nodes/<pk>/usage/                              GET     401 200 200 200 200 200 401 200 200
api/v1/queue/                                         GET     401 200 200 200 200 200 401 200 200
api/v1/quota/                                         GET     401 200 200 200 200 200 401 200 200
api/v1/seats/                                         GET     401 200 200 200 200 200 401 200 200
api/v1/storage-use/                                   GET     401 200 200 200 200 200 401 200 200
api/v1/tokens/                                        GET     401 200 200 200 200 200 401 200 200
api/v1/tokens/                                        POST    401 400 400 400 400 403 401 400 400
api/v1/tokens/<key>/                                  DELETE  401 204 404 404 404 403 401 404 404
api/v1/uploads/                                       GET     401 200 200 200 200 200 401 200 200
api/v1/uploads/<pk>/                                  DELETE  401 204 404 404 404 403 401 404 404
api/v1/uploads/<pk>/                                  GET     401 200 404 404 404 200 401 404 404
api/v1/versions/                                      GET     401 200 200 200 200 200 401 200 200
api/v1/versions/<pk>/                                 GET     401 200 200 200 404 200 401 200 200
api/v1/versions/<pk>/                                 PATCH   401 400 400 400 404 403 401 400 400
api/v1/versions/<pk>/download/                        GET     401 200 200 200 404 200 401 200 200
api/v1/versions/<pk>/inspect/                         POST    401 200 403 200 404 403 401 200 200
api/v1/versions/<pk>/preview/                         GET     401 200 200 200 404 200 401 200 200
"""

# Nodes speak with their own token; joining has a code in the body.
AGENT = """
#                                                     method  anon own mem man str read node stf sup
api/v1/agent/checkpoints                              GET     405 405 405 405 405 405 405 405 405
api/v1/agent/checkpoints                              POST    401 401 401 401 401 401 400 401 401
api/v1/agent/exchange                                 GET     405 405 405 405 405 405 405 405 405
api/v1/agent/exchange                                 POST    401 401 401 401 401 401 400 401 401
api/v1/agent/join                                     GET     405 405 405 405 405 405 405 405 405
api/v1/agent/join                                     POST    400 400 400 400 400 400 400 400 400
api/v1/agent/streams                                  GET     405 405 405 405 405 405 405 405 405
api/v1/agent/streams                                  POST    401 401 401 401 401 401 400 401 401
"""

# Answered before Django. An upload belongs to one person; an object is for whoever holds its ticket.
RAW_TEXT = """
#                                                     method  anon own mem man str read node stf sup
uploads/                                              OPTIONS 204 204 204 204 204 204 204 204 204
uploads/                                              POST    401 201 201 201 201 403 401 201 201
uploads/<pk>                                          HEAD    401 200 404 404 404 200 401 200 200
uploads/<pk>                                          PATCH   401 204 404 404 404 403 401 204 204
uploads/<pk>                                          DELETE  401 204 404 404 404 403 401 204 204
uploads/<pk>                                          GET     405 405 405 405 405 405 405 405 405
objects/<ticket>                                      GET     200 200 200 200 200 200 200 200 200
objects/<ticket>                                      PUT     405 405 405 405 405 405 405 405 405
objects/forged                                        GET     404 404 404 404 404 404 404 404 404
"""

# Close codes: 0 stays open, 4401 not signed in, 4404 nothing there for this viewer.
SOCKETS_TEXT = """
#                                                     method  anon own mem man str read node stf sup
ws/jobs/                                              WS      4401 0 0 0 0 0 4401 0 0
ws/jobs/<pk>/                                         WS      4401 0 0 0 4404 0 4401 0 0
ws/nodes/                                             WS      4401 0 0 0 0 0 4401 0 0
"""

# The admin goes by a rule: whoever is not staff is sent to sign in, staff without the right is refused.
ADMIN_OPEN = ("admin/login/", "admin/logout/")
ADMIN_STAFF = (
    "admin/",
    "admin/jsi18n/",
    "admin/password_change/",
    "admin/password_change/done/",
    "admin/search/",
)


def _rows(text: str) -> dict[tuple[str, str], dict[str, int]]:
    """(method, route) -> answer by role."""
    found = {}
    for line in text.strip().splitlines():
        if line.startswith("#"):
            continue
        route, method, *answers = line.split()
        key = method, "" if route == "(home)" else route
        assert key not in found, f"twice: {line}"
        assert len(answers) == len(ROLES), line
        found[key] = dict(zip(ROLES, map(int, answers), strict=True))
    return found


HTTP = {**_rows(PAGES), **_rows(REST), **_rows(AGENT)}
RAW = _rows(RAW_TEXT)
SOCKETS = {route: row for (_, route), row in _rows(SOCKETS_TEXT).items()}
