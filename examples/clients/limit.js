"use strict";
// Limits the users whose names are read from standard input. Needs ioredis 4 or later.
//
// The client gets the leader from the cluster port of the nodes, and repeats calls while there is no leader.

const readline = require("node:readline");
const Redis = require("ioredis");

const nodes = (process.env.THROTTLED_NODES ?? "127.0.0.1:6384").split(",").map((node) => {
  const [host, port] = node.split(":");
  return { host, port: Number(port) };
});
const client = new Redis.Cluster(nodes, { redisOptions: { password: process.env.THROTTLED_PASSWORD } });
client.on("error", (error) => console.error(error.message));

async function main() {
  for await (const user of readline.createInterface({ input: process.stdin })) {
    // Bursts of up to 16, and 30 calls an hour.
    const [limited, , remaining, retryAfter] = await client.call("CL.THROTTLE", `user:${user}`, 15, 30, 3600);
    console.log(limited ? `refused; retry after ${retryAfter} s` : `admitted; ${remaining} remain`);
  }
  client.disconnect();
}

main();
