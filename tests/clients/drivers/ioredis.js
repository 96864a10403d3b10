"use strict";
// Driver of ioredis; see README.md.

const fs = require("node:fs");
const Redis = require("ioredis");
const { main } = require("./checks.js");

function settings(options, password) {
  const list = {};
  if (options.user) list.username = options.user;
  if (password) list.password = password;
  if (options.resp) list.protocol = options.resp;
  if (options["tls-ca"]) list.tls = { ca: fs.readFileSync(options["tls-ca"]) };
  return list;
}

const ways = {
  standalone: (options, password) => new Redis({ ...options.addresses[0], ...settings(options, password) }),
  cluster: (options, password) => new Redis.Cluster(options.addresses, { redisOptions: settings(options, password) }),
  sentinel: (options, password) => new Redis({
    name: "mymaster", sentinels: options.addresses, sentinelUsername: options.user, sentinelPassword: password, ...settings(options, password), ...sentinelTLS(options),
  }),
};

// The settings of TLS for the Sentinels are separate, and without enableTLSForSentinelMode the connections to them are not encrypted.
function sentinelTLS(options) {
  return options["tls-ca"] ? { sentinelTLS: settings(options).tls, enableTLSForSentinelMode: true } : {};
}

// values returns the replies of a pipeline, and throws its first error.
function values(results) {
  for (const [error] of results) if (error) throw error;
  return results.map(([, value]) => value);
}

const lower = (list) => list.map(([name, ...args]) => ["call", name, ...args]);

async function open(options, password) {
  const client = ways[options.mode](options, password);
  let refusal;
  client.on("error", (error) => { refusal = error; }); // errors of connections; calls report them, too
  return {
    call: async ([name, ...args]) => client.call(name, ...args).catch((error) => {
      throw refusal && /WRONGPASS/.test(refusal.message) ? refusal : error;
    }),
    pipeline: async (list) => values(await client.pipeline(lower(list)).exec()),
    transaction: async (list) => values(await client.multi(lower(list)).exec()),
    close: () => client.disconnect(),
  };
}

main({ version: require("ioredis/package.json").version, open, isError: (error) => error.name === "ReplyError" });
