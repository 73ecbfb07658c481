"""The room as a service of the hub: instructors see the board by the hub's own sign-in, learners join as they do everywhere.

The hub starts it and tells it by environment variables who it is. What the board shows is coursekit's, unchanged.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import uvicorn
from jupyterhub.services.auth import HubOAuth
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from coursekit.room.room_command import Serving
from coursekit.room.server import COOKIE, Room, private
from coursekit.room.store import Store

PORT = int(os.environ.get("ROOM_PORT", "8765"))  # learners type nothing more than an address and the code


class SignedIn:
    """The board for those whom the hub lets see it; everybody else is sent to the hub, which lets them in or not."""

    def __init__(self, board: ASGIApp, secret: str, auth: HubOAuth):
        self._board, self._auth, self._prefix = board, auth, auth.base_url.rstrip("/")
        self._headers = [(b"host", b"127.0.0.1:0"), (b"cookie", f"{COOKIE}={secret}".encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it here."""
        request = Request(scope, receive)
        path = scope["path"].removeprefix(self._prefix)
        if path == "/oauth_callback":
            response = await self._come_back(request)
        elif not await self._may(request.cookies.get(self._auth.cookie_name, "")):
            response = self._send_away(request)
        else:
            headers = self._headers + [pair for pair in scope["headers"] if pair[0] not in (b"host", b"cookie")]
            await self._board(scope | {"path": path, "raw_path": path.encode(), "headers": headers}, receive, send)
            return
        await response(scope, receive, send)

    async def _may(self, token: str) -> bool:
        user = await self._auth.user_for_token(token, sync=False) if token else None
        return bool(user and self._auth.check_scopes(self._auth.access_scopes, user))

    def _send_away(self, request: Request) -> Response:
        """Send somebody to the hub, which sends them back with a code."""
        verifier, challenge, method = self._auth.generate_pkce_code_challenge()
        state = self._auth.generate_state(request.url.path, code_verifier=verifier)
        asked = {"state": state, "code_challenge": challenge, "code_challenge_method": method}
        response = RedirectResponse(f"{self._auth.login_url}&{urlencode(asked)}", 302)
        self._set(response, request, self._auth.state_cookie_name, state)
        return response

    async def _come_back(self, request: Request) -> Response:
        """Take the code that the hub gave, if this browser is the one that was sent."""
        state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
        if not code or not state or request.cookies.get(self._auth.state_cookie_name) != state:
            return PlainTextResponse("Open the board again from the hub's page.", 403)
        verifier, page = self._auth.get_code_verifier(state), self._auth.get_next_url(state)
        self._auth.clear_oauth_state(state)
        token = await self._auth.token_for_code(code, code_verifier=verifier, sync=False)
        response = RedirectResponse(page, 302)
        self._set(response, request, self._auth.cookie_name, token)
        return response

    def _set(self, response: Response, request: Request, name: str, value: str) -> None:
        secure = request.headers.get("x-forwarded-proto", "").startswith("https")
        response.set_cookie(name, value, path=f"{self._prefix}/", httponly=True, secure=secure, samesite="lax")


async def serve() -> None:
    """Serve the room until the hub ends it: to learners over TLS, to instructors through the hub."""
    room = Room(Store(Path("room.db")))
    rooms = Serving(room, PORT, 0)
    place = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    app = SignedIn(private(room), room.secret, HubOAuth(cache_max_age=60))
    config = uvicorn.Config(app, host=place.hostname or "", port=place.port or 0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]  # the room takes the hub's SIGTERM
    through_the_hub = asyncio.create_task(server.serve())
    try:
        await rooms.run()
    finally:
        server.should_exit = True
        await through_the_hub
        room.store.close(keep=False)


if __name__ == "__main__":
    asyncio.run(serve())
