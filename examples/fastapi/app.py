"""An application with two limits: logins by address, and all requests by user or address."""
from fastapi import FastAPI
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware

from rate_limit import RateLimit

TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}


class User(SimpleUser):
    @property
    def identity(self):
        return self.username


class TokenAuthentication(AuthenticationBackend):
    """Replace it by your authentication. It must verify the user: names that clients can invent would evade the limit."""

    async def authenticate(self, conn):
        name = TOKENS.get(conn.headers.get("Authorization", "").removeprefix("Bearer "))
        return (AuthCredentials(["authenticated"]), User(name)) if name else None


app = FastAPI()
app.add_middleware(RateLimit)
app.add_middleware(AuthenticationMiddleware, backend=TokenAuthentication())  # runs before RateLimit, which needs the user


@app.post("/login")
async def login():
    return {"ok": True}


@app.get("/api/items")
async def items():
    return {"items": []}
