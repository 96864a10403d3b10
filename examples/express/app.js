// An application with two limits: logins by address, and all requests by user or address.
import express from "express";
import { rateLimit } from "./rate-limit.js";

const app = express();

// Only entries that these proxies have appended to X-Forwarded-For are believed. req.ip is the right-most other entry.
app.set("trust proxy", (process.env.TRUSTED_PROXIES ?? "").split(",").filter(Boolean));

// Replace this by your authentication. It must verify the user: names that clients can invent would evade the limit.
const tokens = new Map([["token-of-ann", "ann"], ["token-of-bob", "bob"]]);
app.use((req, res, next) => {
  const id = tokens.get(req.get("Authorization")?.replace(/^Bearer /, ""));
  if (id) req.user = { id };
  next();
});

app.post("/login", rateLimit("login"), (req, res) => res.json({ ok: true }));
app.get("/api/items", rateLimit("items"), (req, res) => res.json({ items: [] }));

const server = app.listen(process.env.PORT ?? 3000, "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
