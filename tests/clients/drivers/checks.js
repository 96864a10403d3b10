"use strict";
// The checks of the client matrix for clients of Node; see README.md.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const readline = require("node:readline");
const { parseArgs } = require("node:util");
const { setTimeout: sleep } = require("node:timers/promises");

const names = ["check", "addr", "mode", "resp", "user", "password", "tls-ca", "key", "callers", "until"];

function parse() {
  const { values } = parseArgs({ options: Object.fromEntries(names.map((name) => [name, { type: "string" }])) });
  const addresses = (values.addr ?? "").split(",").filter(Boolean).map((addr) => {
    const colon = addr.lastIndexOf(":");
    return { host: addr.slice(0, colon), port: Number(addr.slice(colon + 1)) };
  });
  return { mode: "standalone", ...values, addresses, resp: Number(values.resp ?? 0), callers: Number(values.callers ?? 1) };
}

function write(check, fields) {
  fs.writeSync(1, JSON.stringify({ check, ...fields }) + "\n");
}

const descending = (from) => Array.from({ length: from + 1 }, (_, i) => from - i);
const repeated = (value, n) => Array.from({ length: n }, () => value);

class Checks {
  constructor(options, library) {
    Object.assign(this, { options, library });
  }

  async open() {
    this.client = await this.library.open(this.options, this.options.password);
  }

  throttle(check, ...limit) {
    return ["CL.THROTTLE", `${this.options.key}:${check}`, ...limit.map(String)];
  }

  async connect() {
    assert.deepEqual(await this.client.call(this.throttle("connect", 15, 30, 60)), [0, 16, 15, -1, 2]);
  }

  async pipeline() {
    const replies = await this.client.pipeline(repeated(this.throttle("pipeline", 999, 1, 3600), 1000));
    assert.deepEqual(replies.map((reply) => reply[2]), descending(999));
  }

  async transaction() {
    const replies = await this.client.transaction(repeated(this.throttle("transaction", 9, 1, 3600), 10));
    assert.deepEqual(replies.map((reply) => reply[2]), descending(9));
  }

  async error() {
    await this.fails(() => this.client.call(this.throttle("error", "x", 1, 60)), /max_burst/);
    assert.equal((await this.client.call(this.throttle("error", 15, 30, 60))).length, 5);
  }

  async auth() {
    await this.fails(async () => {
      const client = await this.library.open(this.options, "wrong");
      await client.call(["PING"]).finally(() => client.close());
    }, /WRONGPASS/);
  }

  async fails(call, text) {
    await assert.rejects(call, (error) => {
      assert.ok(this.library.isError(error), `${error.name}: ${error.message}`);
      assert.match(error.message, text);
      return true;
    });
  }

  async concurrent() {
    let admitted = 0;
    const caller = async () => {
      for (let i = 0; i < 4; i++) {
        if ((await this.client.call(this.throttle("concurrent", 99, 1, 3600)))[0] === 0) admitted++;
      }
    };
    await Promise.all(Array.from({ length: this.options.callers }, caller));
    return { admitted };
  }

  async reconnect() {
    const args = this.throttle("reconnect", 15, 30, 60);
    await this.client.call(args);
    write("reconnect", { event: "ready" });
    const input = readline.createInterface({ input: process.stdin });
    await new Promise((resolve) => input.once("line", resolve));
    input.close();
    const deadline = Date.now() + 10000;
    for (let failed = 0; ; failed++) {
      try {
        await this.client.call(args);
        return { failed };
      } catch (error) {
        if (Date.now() > deadline) throw error;
        await sleep(10);
      }
    }
  }

  async load() {
    const args = this.throttle("load", 1000000, 1000000, 60);
    let calls = 0, succeeded = 0, gap = 0, last = performance.now();
    const caller = async () => {
      const errors = {};
      for (; !fs.existsSync(this.options.until); await sleep(10)) {
        calls++;
        try {
          await this.client.call(args);
        } catch (error) {
          const text = `${error.name}: ${error.message}`.slice(0, 200);
          errors[text] = (errors[text] ?? 0) + 1;
          continue;
        }
        const now = performance.now();
        gap = Math.max(gap, now - last);
        last = now;
        if (++succeeded === 100) {
          gap = 0; // without the time in which the client connects
          write("load", { event: "begun" });
        }
      }
      return errors;
    };
    const errors = await Promise.all(Array.from({ length: this.options.callers }, caller));
    const silent = performance.now() - last;
    return { calls, gap_ms: Math.max(gap, silent), last_ms: silent, errors, repeated: this.client.repeated?.() ?? 0 };
  }
}

async function main(library) {
  const options = parse();
  let checks;
  for (const name of options.check.split(",")) {
    if (name === "version") {
      write(name, { ok: true, detail: library.version });
      continue;
    }
    try {
      if (!checks) {
        const runner = new Checks(options, library);
        await runner.open();
        checks = runner;
      }
      write(name, { ok: true, ...(await checks[name]()) });
    } catch (error) {
      write(name, { ok: false, detail: `${error.name}: ${error.message}` });
    }
  }
  process.exit(0);
}

module.exports = { main };
