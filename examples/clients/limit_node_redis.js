"use strict";
// Limits the users whose names are read from standard input. Needs node-redis 6.
//
// The client gets the leader from the cluster port of the nodes. It fails the calls that a lost leader was answering, so the program
// repeats calls whose connection is lost. A repeated call may charge twice.

const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const redis = require("redis");

const nodes = (process.env.THROTTLED_NODES ?? "127.0.0.1:6384").split(",");
const client = redis.createCluster({
  rootNodes: nodes.map((node) => ({ url: `redis://${node}` })),
  defaults: { password: process.env.THROTTLED_PASSWORD },
  topologyRefreshOnReconnectionAttemptStrategy: 200, // finds the new leader within 200 ms instead of seconds
});
client.on("error", (error) => console.error(error.message));

// repeat makes a call, and repeats it for up to 5 s while it fails without a reply of the server.
async function repeat(call) {
  for (const deadline = Date.now() + 5000; ; await sleep(20)) {
    try {
      return await call();
    } catch (error) {
      if (error instanceof redis.ErrorReply || Date.now() > deadline) throw error; // the program chooses whether the request is admitted
    }
  }
}

async function main() {
  await client.connect();
  for await (const user of readline.createInterface({ input: process.stdin })) {
    const key = `user:${user}`;
    // Bursts of up to 16, and 30 calls an hour.
    const [limited, , remaining, retryAfter] = await repeat(() => client.sendCommand(key, false, ["CL.THROTTLE", key, "15", "30", "3600"]));
    console.log(limited ? `refused; retry after ${retryAfter} s` : `admitted; ${remaining} remain`);
  }
  client.destroy();
}

main();
