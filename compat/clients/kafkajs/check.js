// What the steps are made of: checks, waiting, and the broker's script.
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { isDeepStrictEqual } = require('node:util');

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function same(what, got, want) {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`.slice(0, 400));
  }
}

/** Repeats a check until it passes; its last answer when the time is up. */
async function eventually(seconds, test) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    try {
      return await test();
    } catch (e) {
      if (Date.now() > end) throw e;
    }
    await sleep(50);
  }
}

/** The error types that an error of kafkajs carries, in itself, its causes and its parts. */
function types(e) {
  if (!e) return [];
  return [e.type, e.message, ...types(e.cause), ...(e.errors || []).flatMap(types)].filter(Boolean);
}

/** The call must fail with an error of this type. */
async function refused(type, call) {
  let got;
  try {
    got = await call();
  } catch (e) {
    assert(types(e).some((t) => t.includes(type)), `refused with ${types(e)}, want ${type}`);
    return;
  }
  throw new Error(`not refused with ${type}: ${JSON.stringify(got)}`);
}

/** Ends and starts this run's broker, while what else goes on here goes on. */
function broker(verb, environment = {}) {
  const script = path.join(process.env.CLIENTS, 'broker');
  return new Promise((done, failed) => {
    spawn(script, [verb], { env: { ...process.env, ...environment }, stdio: ['ignore', 'ignore', 'inherit'] })
      .on('error', failed)
      .on('exit', (code) => (code === 0 ? done() : failed(new Error(`broker ${verb} ended with ${code}`))));
  });
}

/** The codec in the attributes of the first batch of partition 0, as it lies on disk. */
function storedCodec(topic) {
  const file = path.join(process.env.BROKER_DIR, 'data', `${topic}-0`, '00000000000000000000.log');
  return codecs[fs.readFileSync(file)[22] & 7];
}

module.exports = { assert, broker, codecs, eventually, refused, same, sleep, storedCodec };
