"use strict";
// Driver of node-redis; see README.md.

const fs = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const redis = require("redis");
const { main } = require("./checks.js");

// settings returns the options of a connection.
function settings(options, password) {
  const list = {};
  if (options.user) list.username = options.user;
  if (password) list.password = password;
  return list;
}

function socket(options, address) {
  return options["tls-ca"] ? { ...address, tls: true, ca: fs.readFileSync(options["tls-ca"]) } : { ...address };
}

const ignore = () => {}; // errors of connections; calls report them, too

async function standalone(options, password) {
  const all = { ...settings(options, password), socket: socket(options, options.addresses[0]) };
  if (options.resp) all.RESP = options.resp;
  if (options.check === "auth" || password === "wrong") all.socket.reconnectStrategy = false;
  const client = await redis.createClient(all).on("error", ignore).connect();
  return {
    call: (args) => client.sendCommand(args),
    pipeline: (list) => queued(client.multi(), list).execAsPipeline(),
    transaction: (list) => queued(client.multi(), list).exec(),
    close: () => client.destroy(),
  };
}

function queued(multi, list) {
  for (const args of list) multi.addCommand(args);
  return multi;
}

async function cluster(options, password) {
  const client = await redis.createCluster({
    rootNodes: options.addresses.map((address) => ({ socket: socket(options, address) })),
    defaults: { ...settings(options, password), ...(options["tls-ca"] ? { socket: socket(options, {}) } : {}) },
    topologyRefreshOnReconnectionAttemptStrategy: 200,
  }).on("error", ignore).connect();
  const key = (args) => args[1];
  const multi = (list) => {
    const commands = client.multi(key(list[0]));
    for (const args of list) commands.addCommand(key(args), false, args);
    return commands;
  };
  return {
    call: (args) => persist(() => client.sendCommand(key(args), false, args)),
    repeated: () => repeated,
    pipeline: (list) => multi(list).execAsPipeline(),
    transaction: (list) => multi(list).exec(),
    close: () => client.destroy(),
  };
}

async function sentinel(options, password) {
  const client = await redis.createSentinel({
    name: "mymaster",
    sentinelRootNodes: options.addresses,
    sentinelClientOptions: { ...settings(options, password), socket: socket(options, {}) },
    nodeClientOptions: { ...settings(options, password), socket: socket(options, {}) },
  }).on("error", ignore).connect();
  return {
    call: (args) => client.sendCommand(false, args),
    pipeline: (list) => queuedAt(client.multi(), list).execAsPipeline(),
    transaction: (list) => queuedAt(client.multi(), list).exec(),
    close: () => client.destroy(),
  };
}

function queuedAt(multi, list) {
  for (const args of list) multi.addCommand(false, args);
  return multi;
}

let repeated = 0; // calls

// persist repeats a call whose connection is lost, for up to 5 s. The library does not repeat calls that it has sent. A
// repeated call may charge twice.
async function persist(call) {
  const deadline = Date.now() + 5000;
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (error instanceof redis.ErrorReply || Date.now() > deadline) throw error;
      if (attempt === 1) repeated++;
    }
    await sleep(20);
  }
}

const ways = { standalone, cluster, sentinel };

main({
  version: require("redis/package.json").version,
  open: (options, password) => ways[options.mode](options, password),
  isError: (error) => error instanceof redis.ErrorReply,
});
