"""The page: one address with the secret, which becomes a cookie, and its files."""

from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from lembasd.instance.core.demo_model import NAME
from lembasd.instance.guard import Keys
from lembasd.instance.local_api import Handler, for_person

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_CLOSED: Final = (
    "Open the address that `lembas instance` printed at its start, then this one again.\n"
)
_PAGE: Final = "page.html"
_FILES: Final = {
    _PAGE: "text/html",
    "page.js": "text/javascript",
    "dom.js": "text/javascript",
    "cards.js": "text/javascript",
    "transcript.js": "text/javascript",
    "terminals.js": "text/javascript",
    "terminal.js": "text/javascript",
    "styles_as_objects.js": "text/javascript",
    "page.css": "text/css",
    "vendor/xterm.mjs": "text/javascript",
    "vendor/addon-fit.mjs": "text/javascript",
    "vendor/xterm.css": "text/css",
}


class Page:
    """Serves the page; `demo` says whether its models are the scripted one."""

    def __init__(self, keys: Keys, *, demo: bool) -> None:
        self._keys = keys
        self._demo = demo
        folder = files("lembasd.instance") / "page"
        self._files = {name: (folder / name).read_bytes() for name in _FILES}

    def routes(self) -> list[Route]:
        return [
            Route("/", self._open, methods=["GET"]),
            Route("/api/local/about", for_person(self._keys, self._about), methods=["GET"]),
            *(
                Route(f"/{name}", for_person(self._keys, self._file(name)), methods=["GET"])
                for name in _FILES
                if name != _PAGE
            ),
        ]

    async def _open(self, request: Request) -> Response:
        secret = request.query_params.get("secret")
        if secret is not None and self._keys.is_secret(secret):
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(self._keys.cookie, secret, httponly=True, samesite="strict", path="/")
            return answer
        if secret is not None or not self._keys.is_person(request):
            return PlainTextResponse(_CLOSED, 401)
        return self._given(_PAGE)

    def _file(self, name: str) -> Handler:
        async def give(_: Request) -> Response:
            return self._given(name)

        return give

    def _given(self, name: str) -> Response:
        headers = {"Content-Security-Policy": _POLICY}
        return Response(self._files[name], media_type=_FILES[name], headers=headers)

    async def _about(self, request: Request) -> Response:
        return JSONResponse({"demo": NAME if self._demo else None})
